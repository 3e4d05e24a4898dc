// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import "weft/bench/internal/harness"

// Time steps of the blocks workload, and of the workload that replays them: a solver makes many.
const (
	blockSteps  = 10
	replaySteps = 100
)

// ghost is the version of the cells around the grid, which no task writes.
const ghost = -1

// blocks is the task graph of a Gauss–Seidel sweep: a square grid of blocks. In each step each
// block updates itself (inout) from its four neighbours (in). The versions of the north and west
// neighbours must be one higher than the block's, those of the south and east ones equal. A frame
// of ghost cells gives every task five accesses.
type blocks struct {
	side   int // with the frame
	steps  int
	cells  []cell
	bodies []func()
}

func newBlocks(size int64, steps int) *blocks {
	side := int(size) + 2
	p := &blocks{side: side, steps: steps, cells: make([]cell, side*side), bodies: make([]func(), side*side)}
	p.each(func(i int) {
		own, n, w, e, s := p.star(i)
		p.bodies[i] = func() { own.update(n, w, e, s) }
	})
	return p
}

// star returns a block and its neighbours.
func (p *blocks) star(i int) (own, n, w, e, s *cell) {
	return &p.cells[i], &p.cells[i-p.side], &p.cells[i-1], &p.cells[i+1], &p.cells[i+p.side]
}

func (c *cell) update(n, w, e, s *cell) {
	v := c.version
	if n.version != v+1 && n.version != ghost || w.version != v+1 && w.version != ghost ||
		e.version != v && e.version != ghost || s.version != v && s.version != ghost {
		c.bad++
	}
	c.version = v + 1
}

// each calls f with the index of every block, row by row.
func (p *blocks) each(f func(i int)) {
	for r := 1; r < p.side-1; r++ {
		for c := 1; c < p.side-1; c++ {
			f(r*p.side + c)
		}
	}
}

func (p *blocks) tasks() int64 { return int64((p.side - 2) * (p.side - 2) * p.steps) }

func (p *blocks) reset() {
	for i := range p.cells {
		p.cells[i] = cell{version: ghost}
	}
	p.each(func(i int) { p.cells[i].version = 0 })
}

func (p *blocks) check() (err error) {
	p.each(func(i int) {
		if c := &p.cells[i]; err == nil && (c.version != int64(p.steps) || c.bad != 0) {
			err = harness.Wrong("block (%d,%d) has version %d after %d steps and saw %d wrong versions",
				i/p.side-1, i%p.side-1, c.version, p.steps, c.bad)
		}
	})
	return err
}

func (p *blocks) sequential() {
	for range p.steps {
		p.each(func(i int) { p.bodies[i]() })
	}
}

func (p *blocks) channels() {
	last := make([]done, len(p.cells)) // nil for the frame
	for range p.steps {
		p.each(func(i int) {
			own, n, w, e, s := last[i], last[i-p.side], last[i-1], last[i+1], last[i+p.side]
			mine, body := make(done), p.bodies[i]
			go func() {
				own.wait()
				n.wait()
				w.wait()
				e.wait()
				s.wait()
				body()
				close(mine)
			}()
			last[i] = mine
		})
	}
	p.each(func(i int) { last[i].wait() })
}
