// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import "context"

// tileBytes is how much memory the rows of blocks of one tile of steps may cover: a guess at what of the last level
// of cache is ours.
const tileBytes = 16 << 20

// steps spawns the tasks of n time steps.
//
// Any order of creation in which each task comes after those it needs, and before those that overwrite what it
// reads, gives the same result. Step by step is one, but then a block has long left the cache when its next step
// comes. So the steps are skewed: wave q has row q of the first step, row q-1 of the second, row q-2 of the third,
// and so on, which is legal because
//
//	(row r, step t) needs        which is in wave
//	(r-1, t)                     r-1+t, one before
//	(r,   t-1)                   r+t-1, one before
//	(r+1, t-1)                   r+t, the same, and comes first there, having the earlier step
//
// and what reads the old values of a row, (r-1, t), is in an earlier wave too. A row of blocks is so
// used again one wave later. The number of steps that are skewed together is bounded by the memory that a wave
// touches: that should stay in the cache.
func (w *sweep) steps(n int) error {
	ctx := w.t.Context()
	rowBytes := w.grid.RowBlock * w.grid.Stride * 8
	waves(w.grid.BlockRows(), n, max(1, tileBytes/rowBytes), w.row, func() bool { return ctx.Err() == nil })
	return context.Cause(ctx)
}

// waves calls row for each of n steps and each of rows rows, skewed in tiles of at most tile steps. It asks goOn
// between waves.
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
