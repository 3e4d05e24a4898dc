// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"context"

	"weft/examples/heat/internal/grid"
)

const (
	// tileBytes is how much memory the rows of blocks of one tile of steps may cover: a guess at
	// what of the last level of cache is ours. Measured: 8 to 24 MiB make no difference with 32
	// MiB.
	tileBytes = 16 << 20
	// orderedCells is the size of a block from which on the order of execution is worth a priority
	// queue. Measured: the queue costs some 100 ns per task, a block of this size takes some 2 µs.
	orderedCells = 64 * 64
)

// steps spawns the tasks of n time steps.
//
// Any order of creation in which each task comes after those it needs, and before those that
// overwrite what it reads, gives the same result. Step by step is one, but then a block has long
// left the cache when its next step comes. So the steps are skewed: wave q has row q of the first
// step, row q-1 of the second, row q-2 of the third, and so on, which is legal because
//
//	(row r, step t) needs        which is in wave
//	(r-1, t)                     r-1+t, one before
//	(r,   t-1)                   r+t-1, one before
//	(r+1, t-1)                   r+t, the same, and comes first there, having the earlier step
//
// and what reads the old values of a row, (r-1, t), is in an earlier wave too. A row of blocks is
// so used again one wave later. The number of steps that are skewed together is bounded by the
// memory that a wave touches: that should stay in the cache.
//
// Left to itself the scheduler runs what became ready last, which drifts back to step by step. So,
// where the matrix is larger than the cache, tasks of earlier waves have priority.
func (w *sweep) steps(n int) error {
	ctx := w.t.Context()
	tile := max(1, tileBytes/(w.grid.RowBlock*w.grid.Stride*8))
	waves(w.grid.BlockRows(), n, tile, w.row, func() bool {
		if w.ordered {
			w.priority--
		}
		return ctx.Err() == nil
	})
	return context.Cause(ctx)
}

// wantsOrder reports whether tasks are to have priorities.
func wantsOrder(g *grid.Grid) bool {
	return g.Rows*g.Stride*8 > tileBytes && g.BlockCells() >= orderedCells
}

// waves calls row for each of n steps and each of rows rows, skewed in tiles of at most tile steps.
// It asks goOn between waves.
func waves(rows, n, tile int, row func(r int), goOn func() bool) {
	for n > 0 {
		m := min(n, tile)
		n -= m
		for wave := range rows + m - 1 {
			for step := max(0, wave-rows+1); step < m && step <= wave; step++ {
				row(wave - step)
			}
			if !goOn() {
				return
			}
		}
	}
}
