// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"math"

	"weft/deps"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/task"
)

// sentinel stands for the cells of a block, or of a piece of a ghost row, in accesses. Its value
// means nothing.
type sentinel byte

// soonest is the priority of tasks that run before the tasks of all waves.
const soonest = math.MaxInt32

// sweep is the state that the tasks of one run share.
type sweep struct {
	t        *task.Task // the main task of this rank: all others are its children
	grid     *grid.Grid
	kernel   kernel.Func
	halo     halo
	progress func()

	// reps has a sentinel for each block and, in row 0 and row BlockRows+1, for each piece of a
	// ghost row.
	reps [][]sentinel
	// block[r][c] computes a block. The bodies are created once, since the tasks of all steps
	// differ only in their order.
	block [][]func(*task.Task) error
	accs  []deps.Access // scratch of the creator

	ordered bool // whether tasks have priorities: see order.go
	// priority of the tasks of this wave; the same on all ranks at the same point in the order of
	// creation
	priority int
}

// blockBody returns the body that computes block (r, c), counted from 0.
func (w *sweep) blockBody(r, c int) func(*task.Task) error {
	rect := w.grid.Block(r, c)
	last := w.grid.Last() && r == w.grid.BlockRows()-1 && c == w.grid.BlockCols()-1
	if last && w.progress != nil {
		return func(*task.Task) error {
			w.kernel(w.grid.Cells, w.grid.Stride, rect)
			w.progress()
			return nil
		}
	}
	return func(*task.Task) error {
		w.kernel(w.grid.Cells, w.grid.Stride, rect)
		return nil
	}
}

// row spawns the tasks of one step for a row of blocks, counted from 0, and those of the halo
// around them.
func (w *sweep) row(r int) {
	last := w.grid.BlockRows() - 1
	if r == 0 {
		w.halo.beforeFirstRow(w)
	}
	if r == last {
		w.halo.beforeLastRow(w)
	}
	for c := range w.grid.BlockCols() {
		w.compute(r, c)
	}
	if r == last {
		w.halo.afterLastRow(w)
	}
}

// compute spawns the task of block (r, c). Its sentinel is reps[r+1][c].
func (w *sweep) compute(r, c int) {
	// The border of the matrix is constant: it needs no accesses.
	a := append(w.accs[:0], deps.InOut(&w.reps[r+1][c]))
	if r > 0 || !w.grid.First() {
		a = append(a, deps.In(&w.reps[r][c]))
	}
	if r < w.grid.BlockRows()-1 || !w.grid.Last() {
		a = append(a, deps.In(&w.reps[r+2][c]))
	}
	if c > 0 {
		a = append(a, deps.In(&w.reps[r+1][c-1]))
	}
	if c < w.grid.BlockCols()-1 {
		a = append(a, deps.In(&w.reps[r+1][c+1]))
	}
	w.accs = a
	w.spawn("block", w.block[r][c], a...)
}

// spawnSoonest spawns a task that, once ready, runs before those of all waves.
func (w *sweep) spawnSoonest(label string, body func(*task.Task) error, accs ...deps.Access) {
	priority := 0
	if w.ordered {
		priority = soonest
	}
	w.t.SpawnWith(task.Attrs{Label: label, Priority: priority}, body, accs...)
}

// spawn spawns a task of this wave.
func (w *sweep) spawn(label string, body func(*task.Task) error, accs ...deps.Access) {
	w.t.SpawnWith(task.Attrs{Label: label, Priority: w.priority}, body, accs...)
}
