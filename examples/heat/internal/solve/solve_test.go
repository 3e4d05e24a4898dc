// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/internal/event/oracle"
	"weft/task"
	"weft/trace"
)

var sources = []grid.Source{
	{Row: 0, Col: 0, Range: 1, Temperature: 2.5},
	{Row: 1, Col: 0.5, Range: 1, Temperature: 2.5},
	{Row: 0.3, Col: 1, Range: 0.5, Temperature: -7},
}

// sequential returns the matrix after some steps of the naive kernel.
func sequential(l grid.Layout, steps int) *grid.Grid {
	l.Ranks = 1
	g := grid.New(l, 0)
	g.Init(sources)
	for range steps {
		g.Sweep(kernel.Naive)
	}
	return g
}

// runRanks makes a run, whose recording must be legal, and returns the inner cells of the whole
// matrix.
func runRanks(t *testing.T, variant string, l grid.Layout, workers, wins, steps int, plan func(c *comm.Comm) Plan) []float64 {
	t.Helper()
	rec := oracle.New(t)
	rt := task.New(task.Config{Workers: workers, Trace: (*trace.Recorder)(rec)})
	defer func() { require.NoError(t, rt.Close()) }()
	got := make([]float64, l.Rows*l.Cols)
	err := comm.Run(context.Background(), comm.Config{Ranks: l.Ranks, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
		g := grid.New(l, c.Rank())
		g.Init(sources)
		s, err := New(Config{Comm: c, Runtime: rt, Grid: g, Kernel: kernel.Rows8, Variant: variant, Wins: wins})
		if err != nil {
			return err
		}
		// Twice, as after a warm-up: the second run must not depend on the first.
		if err := s.Run(Plan{Steps: 1}); err != nil {
			return err
		}
		g.Init(sources)
		p := Plan{Steps: steps}
		if plan != nil {
			p = plan(c)
		}
		if err := s.Run(p); err != nil {
			return err
		}
		if err := s.Free(); err != nil {
			return err
		}
		mine := comm.Vector(g.Cells[g.At(1, 1):], g.RankRows(), g.Cols, g.Stride)
		return c.Gather(mine, comm.Of(got), 0)
	})
	require.NoError(t, err)
	return got
}

type shape struct{ rows, cols, rbs, cbs, steps int }

var shapes = []shape{
	{1, 1, 1, 1, 5},      // one cell per rank
	{21, 9, 3, 3, 7},     // several blocks both ways
	{40, 30, 5, 30, 4},   // one column of blocks
	{16, 64, 16, 16, 9},  // one row of blocks per rank
	{30, 50, 8, 16, 6},   // needs rounding
	{64, 48, 16, 24, 12}, // blocks that the fast kernel fills
}

// For every variant, number of ranks, number of workers and shape, the result equals the sequential
// sweep bit by bit.
func TestVariantsEqualSequentialSweep(t *testing.T) {
	for _, variant := range conf.Variants {
		for _, ranks := range []int{1, 2, 3, 7} {
			for _, sh := range shapes {
				l := grid.Round(sh.rows, sh.cols, ranks, sh.rbs, sh.cbs)
				want := sequential(l, sh.steps)
				for _, workers := range []int{1, 2, 4} {
					for wins := 1; wins <= l.BlockCols(); wins++ {
						if l.BlockCols()%wins != 0 || (variant != conf.TAMPIRMA && wins > 1) {
							continue
						}
						t.Run(fmt.Sprintf("%s/ranks%d/%dx%d/workers%d/wins%d", variant, ranks, l.Rows, l.Cols, workers, wins), func(t *testing.T) {
							got := runRanks(t, variant, l, workers, wins, sh.steps, nil)
							if d := grid.Compare(got, want); d != nil {
								t.Fatal(d)
							}
						})
					}
				}
			}
		}
	}
}

// Progress is called once per step, in every variant.
func TestProgressCountsSteps(t *testing.T) {
	for _, variant := range conf.Variants {
		var n atomic.Int64
		l := grid.Round(12, 12, 3, 2, 4)
		runRanks(t, variant, l, 2, 1, 0, func(*comm.Comm) Plan {
			return Plan{Steps: 9, Progress: func() { n.Add(1) }}
		})
		require.EqualValues(t, 9, n.Load(), variant)
	}
}

// A kernel that panics on one rank ends the run of all ranks with that error, in every variant.
func TestFailureEndsTheRun(t *testing.T) {
	for _, variant := range conf.Variants {
		rec := oracle.New(t)
		rt := task.New(task.Config{Workers: 2, Trace: (*trace.Recorder)(rec)})
		l := grid.Round(12, 12, 3, 2, 4)
		err := comm.Run(context.Background(), comm.Config{Ranks: l.Ranks, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
			g := grid.New(l, c.Rank())
			calls := new(atomic.Int64)
			k := func(m []float64, stride int, r kernel.Rect) {
				if c.Rank() == 1 && calls.Add(1) == 20 {
					panic("planted")
				}
				kernel.Rows8(m, stride, r)
			}
			s, err := New(Config{Comm: c, Runtime: rt, Grid: g, Kernel: k, Variant: variant, Wins: 3})
			if err != nil {
				return err
			}
			return s.Run(Plan{Steps: 50})
		})
		require.ErrorContains(t, err, "planted", variant)
		require.NoError(t, rt.Close())
	}
}

func TestUnknownVariant(t *testing.T) {
	_, err := New(Config{Variant: "omp"})
	require.ErrorContains(t, err, `unknown variant "omp": choose one of`)
}

// The order of creation is legal and complete: all small cases.
func TestWavesRespectDependences(t *testing.T) {
	for rows := 1; rows <= 6; rows++ {
		for steps := 1; steps <= 9; steps++ {
			for tile := 1; tile <= 9; tile++ {
				done := make([]int, rows) // steps made of each row
				waves(rows, steps, tile, func(r int) {
					at := done[r] // making step at, counted from 0
					if r > 0 {
						require.Equal(t, at+1, done[r-1], "the row above must be one step ahead")
					}
					if r < rows-1 {
						require.Equal(t, at, done[r+1], "the row below must be at the step before")
					}
					done[r]++
				}, func() bool { return true })
				for r := range done {
					require.Equal(t, steps, done[r])
				}
			}
		}
	}
}
