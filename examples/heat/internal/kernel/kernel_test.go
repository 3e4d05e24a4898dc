// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// sweep is the formula with explicit indices, to test Naive.
func sweep(m []float64, stride int, r Rect) {
	for i := r.Row; i < r.Row+r.Rows; i++ {
		for j := r.Col; j < r.Col+r.Cols; j++ {
			sum := m[(i-1)*stride+j] + m[(i+1)*stride+j]
			sum += m[i*stride+j+1]
			sum += m[i*stride+j-1]
			m[i*stride+j] = sum * 0.25
		}
	}
}

func randomMatrix(rng *rand.Rand, rows, cols int) []float64 {
	m := make([]float64, rows*cols)
	for i := range m {
		m[i] = math.Ldexp(rng.Float64()-0.5, rng.IntN(40)-20)
	}
	return m
}

func requireSameBits(t *testing.T, want, got []float64, stride int) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if math.Float64bits(want[i]) != math.Float64bits(got[i]) {
			require.Failf(t, "cells differ", "row %d column %d: want %x, got %x", i/stride, i%stride, want[i], got[i])
		}
	}
}

// All shapes up to 20x40 and some large ones, at an offset in a larger matrix: all kernels give the
// same bits, and write nothing outside.
func TestKernelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := [][2]int{{64, 64}, {256, 256}, {100, 333}, {1, 1000}, {1000, 1}, {17, 129}, {129, 17}}
	for rows := range 21 {
		for cols := range 41 {
			shapes = append(shapes, [2]int{rows, cols})
		}
	}
	for _, s := range shapes {
		r := Rect{Row: 1 + rng.IntN(3), Col: 1 + rng.IntN(3), Rows: s[0], Cols: s[1]}
		stride := r.Col + r.Cols + 1 + rng.IntN(3)
		start := randomMatrix(rng, r.Row+r.Rows+1+rng.IntN(3), stride)
		want := append([]float64(nil), start...)
		sweep(want, stride, r)
		for _, name := range Names() {
			f, err := ByName(name)
			require.NoError(t, err)
			got := append([]float64(nil), start...)
			f(got, stride, r)
			requireSameBits(t, want, got, stride)
		}
	}
}

// Several sweeps block by block equal several whole sweeps.
func TestBlocksComposeToSweep(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const rows, cols, stride = 48, 60, 62
	start := randomMatrix(rng, rows+2, stride)
	want := append([]float64(nil), start...)
	for range 3 {
		sweep(want, stride, Rect{1, 1, rows, cols})
	}
	for _, b := range [][2]int{{1, 1}, {48, 60}, {8, 10}, {16, 12}, {3, 5}, {24, 30}, {12, 4}} {
		got := append([]float64(nil), start...)
		for range 3 {
			for i := 0; i < rows; i += b[0] {
				for j := 0; j < cols; j += b[1] {
					Rows8(got, stride, Rect{1 + i, 1 + j, b[0], b[1]})
				}
			}
		}
		requireSameBits(t, want, got, stride)
	}
}

func TestByNameNamesLegalKernels(t *testing.T) {
	_, err := ByName("fast")
	require.EqualError(t, err, `unknown kernel "fast": choose one of rows8, row, naive`)
}

func TestOutOfBoundsPanics(t *testing.T) {
	m := make([]float64, 10*10)
	for _, name := range Names() {
		f, _ := ByName(name)
		require.Panics(t, func() { f(m, 10, Rect{1, 1, 9, 8}) }, name)
		require.Panics(t, func() { f(m, 10, Rect{0, 1, 8, 8}) }, name)
	}
}

// BenchmarkKernel reports million cell updates per second: 64x256 stays in the first-level or
// second-level cache, 256x256 is the block of the benchmark, 2048x2048 is out of cache.
func BenchmarkKernel(b *testing.B) {
	for _, s := range [][2]int{{64, 64}, {64, 256}, {256, 256}, {2048, 2048}} {
		for _, name := range Names() {
			b.Run(fmt.Sprintf("%s/%dx%d", name, s[0], s[1]), func(b *testing.B) {
				f, err := ByName(name)
				require.NoError(b, err)
				m := make([]float64, (s[0]+2)*(s[1]+2))
				for i := range m {
					m[i] = float64(i % 17)
				}
				want := append([]float64(nil), m...)
				sweep(want, s[1]+2, Rect{1, 1, s[0], s[1]})
				f(m, s[1]+2, Rect{1, 1, s[0], s[1]})
				for i := range want {
					if m[i] != want[i] {
						b.Fatalf("wrong answer at %d", i)
					}
				}
				for b.Loop() {
					f(m, s[1]+2, Rect{1, 1, s[0], s[1]})
				}
				b.ReportMetric(float64(s[0]*s[1])*float64(b.N)/b.Elapsed().Seconds()/1e6, "MUpd/s")
			})
		}
	}
}
