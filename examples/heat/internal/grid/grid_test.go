// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package grid

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/kernel"
)

var twoSources = []Source{
	{Row: 0, Col: 0, Range: 1, Temperature: 2.5},
	{Row: 1, Col: 0.5, Range: 1, Temperature: 2.5},
}

func TestRound(t *testing.T) {
	require.Equal(t, Layout{Rows: 1024, Cols: 1024, Ranks: 2, RowBlock: 128, ColBlock: 128}, Round(1024, 1024, 2, 128, 128))
	l := Round(1000, 70, 3, 128, 64)
	require.Equal(t, Layout{Rows: 1152, Cols: 128, Ranks: 3, RowBlock: 128, ColBlock: 64}, l)
	require.Equal(t, 384, l.RankRows())
	require.Equal(t, 3, l.BlockRows())
	require.Equal(t, 2, l.BlockCols())
	require.Equal(t, 6, l.Blocks())
	require.Equal(t, 128*64, l.BlockCells())
	require.Equal(t, 384*128, l.RankCells())
}

// No stride puts neighbouring rows near a multiple of 4 KiB apart.
func TestStride(t *testing.T) {
	for n := 3; n < 5000; n++ {
		s := stride(n)
		require.GreaterOrEqual(t, s, n)
		require.Zero(t, s%8)
		require.LessOrEqual(t, s, n+64)
		require.GreaterOrEqual(t, s%512, 24)
		require.LessOrEqual(t, s%512, 512-24)
	}
}

func TestInitWarmsTheBorderOnly(t *testing.T) {
	g := New(Round(10, 20, 1, 5, 5), 0)
	for i := range g.Cells {
		g.Cells[i] = -1 // Init must overwrite
	}
	g.Init(twoSources)
	for r := 1; r <= 10; r++ {
		for _, x := range g.Row(r, 1, 20) {
			require.Zero(t, x)
		}
	}
	at := func(r, c int) float64 { return g.Cells[g.At(r, c)] }
	require.Equal(t, 2.5, at(0, 0), "distance 0 of the first source, too far from the second")
	require.Equal(t, 0.0, at(0, 21), "distance 1 is the end of the range")
	require.InDelta(t, 2.5*(1-2.0/21), at(0, 2), 1e-12)
	require.InDelta(t, 2.5*0.5, at(11, 0), 1e-12)
	require.InDelta(t, 2.5*0.5, at(11, 21), 1e-12)
	require.InDelta(t, 2.5*(1-1.0/11), at(1, 0), 1e-12)
}

// The initial states of all ranks together equal that of a single rank.
func TestInitIsTheSameForAllCuts(t *testing.T) {
	whole := New(Round(12, 10, 1, 2, 5), 0)
	whole.Init(twoSources)
	for _, ranks := range []int{2, 3, 6} {
		for rank := range ranks {
			g := New(Round(12, 10, ranks, 2, 5), rank)
			g.Init(twoSources)
			for r := range g.RankRows() + 2 {
				if (r == 0 && !g.First()) || (r == g.RankRows()+1 && !g.Last()) {
					continue // ghost rows
				}
				require.Equal(t, whole.Row(rank*g.RankRows()+r, 0, 12), g.Row(r, 0, 12))
			}
		}
	}
}

// Updating all blocks in row-major order equals a sweep.
func TestBlocksMakeASweep(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	l := Round(40, 48, 1, 20, 24)
	want, got := New(l, 0), New(l, 0)
	for i := range want.Cells {
		want.Cells[i] = rng.Float64()
	}
	copy(got.Cells, want.Cells)
	for range 4 {
		want.Sweep(kernel.Naive)
		for r := range l.BlockRows() {
			for c := range l.BlockCols() {
				kernel.Rows8(got.Cells, got.Stride, got.Block(r, c))
			}
		}
	}
	require.Equal(t, want.Cells, got.Cells)
}

func TestCompareFindsTheFirstDifference(t *testing.T) {
	want := New(Round(6, 5, 1, 1, 1), 0)
	want.Init(twoSources)
	want.Sweep(kernel.Naive)
	got := make([]float64, 0, 30)
	for r := range 6 {
		got = append(got, want.Row(r+1, 1, 5)...)
	}
	require.Nil(t, Compare(got, want))
	got[2*5+3] += 1e-9
	got[4*5] = 7
	d := Compare(got, want)
	require.Equal(t, []int{3, 4, 2}, []int{d.Row, d.Col, d.Cells})
	require.ErrorContains(t, d, "check failed: row 3, column 4 differs from the sequential sweep: got ")
}
