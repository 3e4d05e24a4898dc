// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The middle of a number's bin differs from the number by at most a sixteenth, and bins are in
// order.
func TestBins(t *testing.T) {
	last := -1
	for _, x := range []uint64{0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000, 1 << 20, 1<<20 + 1, 1<<40 - 1, math.MaxInt64} {
		i := bin(x)
		require.Less(t, i, buckets)
		require.GreaterOrEqual(t, i, last)
		last = i
		require.InEpsilon(t, float64(x)+1e-9, float64(middle(i))+1e-9, 1.0/16+1e-9, "%d in bin %d", x, i)
	}
	for i := range buckets {
		require.Equal(t, i, bin(uint64(middle(i))))
	}
}

func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var whole, a, b D
		var all []int64
		for range 1 + rng.IntN(500) {
			x := int64(math.Exp(rng.Float64() * 30))
			all = append(all, x)
			whole.Add(x, 1)
			if rng.IntN(2) == 0 {
				a.Add(x, 1)
			} else {
				b.Add(x, 1)
			}
		}
		slices.Sort(all)
		a.Merge(&b)
		require.Equal(t, whole, a)
		require.Equal(t, time.Duration(all[0]), a.Min())
		require.Equal(t, time.Duration(all[len(all)-1]), a.Max())
		double := a
		double.Rate = 2
		require.Equal(t, 2*a.Sum(), double.Sum())
		for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 1} {
			want := all[min(len(all)-1, int(q*float64(len(all))))]
			require.InEpsilon(t, float64(want), float64(a.Quantile(q)), 0.07)
		}
	}
	var empty D
	require.Zero(t, empty.Quantile(0.5))
	require.Zero(t, empty.Mean())
	empty.Add(-5, 1)
	require.Equal(t, D{N: 1, bins: empty.bins}, empty)
}
