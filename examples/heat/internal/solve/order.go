// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"context"

	"weft/examples/heat/internal/grid"
)

const (
	// tileBytes is the memory that the rows of blocks of one tile of steps may cover: a guess at
	// this rank's share of the last-level cache. Measured: values from 8 to 24 MiB make no
	// difference on 32 MiB.
	tileBytes = 16 << 20
	// orderedCells is the smallest block size for which tasks have priorities. Measured: the
	// priority queue costs about 100 ns per task, and a block of this size takes about 2 µs.
	orderedCells = 64 * 64
)

// steps spawns the tasks of n time steps.
//
// An order of creation is legal if each task is created after the tasks that it needs, and before
// the tasks that overwrite what it reads. All legal orders give the same result. Step by step is
// legal, but then a block has left the cache long before its next step. So the steps are skewed:
// wave q has row q of the first step, row q-1 of the second, row q-2 of the third, and so on. This
// is legal because
//
//	(row r, step t) needs        which is in wave
//	(r-1, t)                     r-1+t, one before
//	(r,   t-1)                   r+t-1, one before
//	(r+1, t-1)                   r+t, the same, and earlier in it, since its step is earlier
//
// and the reader of a row's old values, (r-1, t), is in an earlier wave, too. So a row of blocks is
// used again one wave later. The number of steps that are skewed together is bounded by the memory
// of a wave, which should stay in the cache.
//
// By default the scheduler runs the task that became ready last, which tends towards step by step.
// So, if the matrix is larger than the cache, tasks of earlier waves have priority.
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

// wantsOrder reports whether tasks have priorities.
func wantsOrder(g *grid.Grid) bool {
	return g.Rows*g.Stride*8 > tileBytes && g.BlockCells() >= orderedCells
}

// waves calls row for each of n steps and each of rows rows, skewed in tiles of at most tile steps.
// It calls goOn between waves, and stops if the result is false.
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
