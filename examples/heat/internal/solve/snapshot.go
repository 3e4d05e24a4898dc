// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"weft/comm"
	"weft/deps"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/snapshot"
	"weft/rma"
	"weft/tampi"
	"weft/task"
)

// Window is a window for snapshots: one region per rank, displacements in bytes.
type Window interface {
	Put(src comm.Buffer, rank, disp int) error
	Fence(assert rma.Assert) error
	Ifence(assert rma.Assert) *comm.Request
}

// Snapshot saves the matrix of one rank repeatedly. All ranks must make the same calls in the same
// order.
type Snapshot struct {
	win  Window
	head snapshot.Header
	next int // number of the next snapshot
}

// NewSnapshot returns a Snapshot that begins with snapshot 0. The window's regions must be as head
// says.
func NewSnapshot(win Window, head snapshot.Header) *Snapshot {
	return &Snapshot{win: win, head: head}
}

// Blocking saves the matrix before it returns: for the variant mpi.
func (s *Snapshot) Blocking(g *grid.Grid) error {
	if err := s.win.Fence(0); err != nil {
		return err
	}
	if err := s.putHeader(g, s.next); err != nil {
		return err
	}
	for r := range g.BlockRows() {
		for c := range g.BlockCols() {
			if err := s.putBlock(g, s.next, r, c); err != nil {
				return err
			}
		}
	}
	s.next++
	return s.win.Fence(0)
}

// spawn spawns the tasks that save the matrix as it is at this point of the creation order.
//
//	open an epoch                       inout: the window
//	put a block       in: the block     concurrent: the window
//	close the epoch   in: all blocks    inout: the window
//
// The fences are bound to their tasks by Iwait. So only tasks that need the window, or that
// overwrite a block, wait for the fences. The last task has the blocks as in, because the source of
// a put must not change before the fence: a window may copy after Put has returned. The first task
// needs no block: an epoch can be open before there is something to put. So the opening fence is
// complete by the end of the step, and each block is put as soon as it is computed, while it is in
// the cache. With all blocks as in for the first task too, as in the original program, snapshots
// cost half as much again.
//
// All these tasks have priority over those of the waves, if waves have priorities. Otherwise, being
// the youngest, they would run last: the epoch would be opened after all blocks are computed, and
// the puts would be one more pass over a matrix that does not fit into the cache. Measured with
// 2048 x 2048 cells in blocks of 256 x 256: a put began 3 to 5 ms after its block was computed, and
// took 70 to 110 µs instead of 45 to 60.
func (s *Snapshot) spawn(w *sweep) {
	fence := func(t *task.Task) error { return tampi.Iwait(t, s.win.Ifence(0)) }
	all := []deps.Access{deps.InOut(s)} // s stands for the window
	for _, row := range w.reps[1 : len(w.reps)-1] {
		for c := range row {
			all = append(all, deps.In(&row[c]))
		}
	}
	w.spawnSoonest("open epoch", fence, all[0])
	n := s.next
	if n == 0 {
		w.spawnSoonest("put header", func(*task.Task) error {
			return s.putHeader(w.grid, n)
		}, deps.Concurrent(s))
	}
	for r := range w.grid.BlockRows() {
		for c := range w.grid.BlockCols() {
			w.spawnSoonest("put block", func(*task.Task) error {
				return s.putBlock(w.grid, n, r, c)
			}, deps.In(&w.reps[r+1][c]), deps.Concurrent(s))
		}
	}
	w.spawnSoonest("close epoch", fence, all...)
	s.next++
}

// putHeader puts the header, at rank 0 and for the first snapshot.
func (s *Snapshot) putHeader(g *grid.Grid, n int) error {
	if g.Rank != 0 || n > 0 {
		return nil
	}
	return s.win.Put(comm.Of(s.head.Encode()), 0, 0)
}

// putBlock puts block (r, c) into snapshot n, directly from the matrix.
func (s *Snapshot) putBlock(g *grid.Grid, n, r, c int) error {
	b := g.Block(r, c)
	src := comm.Vector(g.Cells[g.At(b.Row, b.Col):], b.Rows, b.Cols, g.Stride)
	return s.win.Put(src, g.Rank, s.head.Offset(g.Rank, n, r, c))
}
