// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"sync"

	"weft/bench/internal/harness"
)

// independent is a million tasks without accesses. Each adds one to its own byte.
type independent struct {
	marks  []uint8
	bodies []func() // one per task, because each has its own byte
}

func newIndependent(size int64) *independent {
	p := &independent{marks: make([]uint8, size), bodies: make([]func(), size)}
	for i := range p.marks {
		mark := &p.marks[i]
		p.bodies[i] = func() { *mark++ }
	}
	return p
}

func (p *independent) tasks() int64 { return int64(len(p.marks)) }

func (p *independent) reset() { clear(p.marks) }

func (p *independent) check() error {
	for i, m := range p.marks {
		if m != 1 {
			return harness.Wrong("task %d of %d ran %d times", i, len(p.marks), m)
		}
	}
	return nil
}

func (p *independent) sequential() {
	for _, body := range p.bodies {
		body()
	}
}

func (p *independent) goroutines() {
	var wg sync.WaitGroup
	for _, body := range p.bodies {
		wg.Add(1)
		go func() {
			body()
			wg.Done()
		}()
	}
	wg.Wait()
}
