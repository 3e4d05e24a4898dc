// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// curve is a system whose tasks cost a fixed overhead and one nanosecond for each iteration. Its
// efficiency is one half where a task takes twice the overhead. Noise is the greatest part by which
// a reading is worse.
func curve(overhead, noise float64, rng *rand.Rand) func(int64) (Reading, error) {
	return func(n int64) (Reading, error) {
		took := (float64(n) + overhead) * (1 + noise*rng.Float64())
		return Reading{Iterations: n, Granularity: took, Efficiency: float64(n) / took}, nil
	}
}

func TestSearchFindsTheCrossing(t *testing.T) {
	for overhead := 3.0; overhead < 3e5; overhead *= 1.37 {
		for _, start := range []int64{1, 1000, 1 << 20} {
			sweep, err := Search(curve(overhead, 0, rand.New(rand.NewPCG(1, 2))), start, 1<<30)
			require.NoError(t, err)
			require.False(t, sweep.Bound)
			require.InEpsilon(t, 2*overhead, sweep.METG, 0.01, "overhead %g from %d", overhead, start)
			for i, r := range sweep.Readings[1:] {
				require.Less(t, sweep.Readings[i].Iterations, r.Iterations, "in rising order, none twice")
			}
			// Bisected: the neighbours of the crossing are close.
			i := crossing(sweep.Readings)
			below, above := sweep.Readings[i-1].Iterations, sweep.Readings[i].Iterations
			require.True(t, float64(above) <= narrow*float64(below) || above-below <= 1, "%d and %d", below, above)
		}
	}
}

func TestSearchStandsNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		sweep, err := Search(curve(1000, 0.1, rng), 1<<14, 1<<30)
		require.NoError(t, err)
		require.InEpsilon(t, 2100, sweep.METG, 0.25)
	}
	// A single bad reading on the way down does not end the search.
	bad := true
	sweep, err := Search(func(n int64) (Reading, error) {
		r, _ := curve(1000, 0, rng)(n)
		if n < 1<<14 && bad {
			bad = false
			r.Efficiency = 0.4
		}
		return r, nil
	}, 1<<14, 1<<30)
	require.NoError(t, err)
	require.InEpsilon(t, 2000, sweep.METG, 0.01)
}

func TestSearchAtItsLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	sweep, err := Search(curve(0.5, 0, rng), 1<<10, 1<<20)
	require.NoError(t, err)
	require.True(t, sweep.Bound, "one iteration is efficient enough")
	require.InDelta(t, 1.5, sweep.METG, 1e-9)

	sweep, err = Search(curve(1e6, 0, rng), 1<<10, 1<<16)
	require.ErrorIs(t, err, ErrUnreached)
	require.ErrorContains(t, err, "65536 iterations")
	require.Len(t, sweep.Readings, 7)

	oops := errors.New("oops")
	for fails := range 7 {
		_, err = Search(func(n int64) (Reading, error) {
			if fails--; fails < 0 {
				return Reading{}, oops
			}
			return curve(1000, 0, rng)(n)
		}, 100, 1<<30)
		require.ErrorIs(t, err, oops)
	}
}

// synthetic is a machine of two workers. Each takes a nanosecond for an iteration, and the overhead
// for each task.
func synthetic(overhead float64) *Machine {
	return &Machine{
		Run: func(_ context.Context, n int64, _ time.Duration) (float64, error) {
			return (float64(n) + overhead) / 2, nil
		},
		Peak: func(_ context.Context, n int64, _ time.Duration) (float64, error) {
			return float64(n) / 2 * 1.25, nil // disturbed
		},
		workers: 2, tasks: 1000, known: new(peak), average: func(n int64) float64 { return float64(n) },
	}
}

func TestMachineMETG(t *testing.T) {
	m := synthetic(500)
	ns, err := m.measurePeak(t.Context(), 0)
	require.NoError(t, err)
	require.InDelta(t, 0.625, ns, 1e-9)
	sweep, err := m.METG(t.Context(), m.known, Grains{Start: 100 * time.Microsecond, Limit: time.Second}, 0)
	require.NoError(t, err)
	require.InEpsilon(t, 0.5, sweep.Peak, 0.01, "the first grain did better than the peak")
	require.InEpsilon(t, 1000, sweep.METG, 0.02, "workers × time / tasks")
	for _, r := range sweep.Readings {
		require.LessOrEqual(t, r.Efficiency, 1.0)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.METG(ctx, m.known, Grains{Start: time.Microsecond, Limit: time.Second}, 0)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPeakKeepsTheBest(t *testing.T) {
	var p peak
	for _, ns := range []float64{5, 3, 4} {
		p.offer(ns)
	}
	require.Equal(t, 3.0, p.ns)
	require.False(t, math.Signbit(p.ns))
}
