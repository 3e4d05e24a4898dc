// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import "weft/bench/internal/harness"

// chains is a workload whose tasks each have one inout access, to a number of objects in turn. With
// one object it is a single chain.
type chains struct {
	cells  []cell
	bodies []func() // one per object
	length int      // tasks per object
}

func newChains(size int64, objects int) *chains {
	p := &chains{cells: make([]cell, objects), bodies: make([]func(), objects), length: int(size) / objects}
	for i := range p.cells {
		c := &p.cells[i]
		p.bodies[i] = func() { c.version++ }
	}
	return p
}

func (p *chains) tasks() int64 { return int64(p.length * len(p.cells)) }

func (p *chains) reset() { clear(p.cells) }

func (p *chains) check() error {
	for i := range p.cells {
		if v := p.cells[i].version; v != int64(p.length) {
			return harness.Wrong("object %d has version %d after %d tasks", i, v, p.length)
		}
	}
	return nil
}

func (p *chains) sequential() {
	for range p.length {
		for _, body := range p.bodies {
			body()
		}
	}
}

func (p *chains) channels() {
	last := make([]done, len(p.cells))
	for range p.length {
		for i, body := range p.bodies {
			before, mine := last[i], make(done)
			go func() {
				before.wait()
				body()
				close(mine)
			}()
			last[i] = mine
		}
	}
	for _, d := range last {
		d.wait()
	}
}
