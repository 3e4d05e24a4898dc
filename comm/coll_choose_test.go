// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"fmt"
	"testing"

	"weft/comm/internal/coll"

	"github.com/stretchr/testify/require"
)

// eachAlgorithm calls f with every algorithm of every collective forced.
func eachAlgorithm(t *testing.T, f func(t *testing.T)) {
	for k, list := range coll.Algorithms {
		for _, a := range list {
			if len(list) > 1 {
				t.Run(coll.Names[k]+" "+a.Name, func(t *testing.T) {
					t.Setenv(EnvCollectives, coll.Names[k]+"="+a.Name)
					f(t)
				})
			}
		}
	}
}

func TestAlgorithms(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T) {
		for ranks := 1; ranks <= 9; ranks++ {
			for _, n := range []int{0, 1, 3, 7, 2500} {
				if n > 7 && ranks > 5 {
					continue
				}
				require.NoError(t, runApart(t.Context(), Config{Ranks: ranks}, func(c *Comm) error { return checkCollectives(c, n) }), "%d ranks, %d elements", ranks, n)
			}
		}
	})
}

func TestAlgorithmsInEveryLayoutAndInRankOrder(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T) {
		for ranks := 2; ranks <= 9; ranks++ {
			require.NoError(t, runApart(t.Context(), Config{Ranks: ranks}, func(c *Comm) error { return inEveryLayout(c, []int{4, 8}) }), "%d ranks", ranks)
		}
		for _, ranks := range []int{2, 3, 4, 6, 7} {
			op := OpFunc(false, compose)
			require.NoError(t, runApart(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
				f := func(r int) affine { return affine{uint32(2*r + 3), uint32(r)} }
				in, want := []affine{f(c.Rank()), f(c.Rank()), f(c.Rank())}, []affine{f(ranks - 1)}
				for r := ranks - 2; r >= 0; r-- {
					compose([]affine{f(r)}, want)
				}
				want = []affine{want[0], want[0], want[0]}
				return cmp.Or(c.Allreduce(Of(in), Of(in), op), expectSlice("allreduce", want, in))
			}))
		}
	})
}

// Halves combine in the order of doubling.
func TestHalvesHaveTheBitsOfDoubling(t *testing.T) {
	onlyMessages.Store(true)
	defer onlyMessages.Store(false)
	for ranks := 2; ranks <= 9; ranks++ {
		t.Setenv(EnvCollectives, "allreduce=doubling")
		want := floatBits(t, ranks, 50)
		t.Setenv(EnvCollectives, "allreduce=halves")
		require.Equal(t, want, floatBits(t, ranks, 50), "%d ranks", ranks)
	}
}

// Every rank must choose alike, so the choice depends on what all know; and there is always one.
func TestChoice(t *testing.T) {
	for k, list := range coll.Algorithms {
		for i, a := range list {
			require.Equal(t, i == len(list)-1, a.Better == nil, "%s %s", coll.Names[k], a.Name)
		}
	}
	all, err := coll.ParseChosen(EnvCollectives, "  allreduce=doubling bcast=ring ")
	require.NoError(t, err)
	require.Equal(t, coll.Chosen{coll.Allreduce: 2, coll.Bcast: 1}, all)
	for text, says := range map[string]string{
		"allreduce":            "halves, doubling",
		"allreduce=quick":      "quick",
		"allredux=halves":      "alltoall",
		"no collective=halves": `"no" is no collective`,
		"=halves":              `"" is no collective`,
	} {
		_, err := coll.ParseChosen(EnvCollectives, text)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, EnvCollectives)
	}
	t.Setenv(EnvCollectives, "scan=fast")
	require.ErrorContains(t, Run(t.Context(), Config{Ranks: 2}, func(*Comm) error { return nil }), "fast")
}

func BenchmarkCollectives(b *testing.B) {
	for _, n := range []int{1, 1 << 17} {
		b.Run(fmt.Sprintf("allreduce/%d", 8*n), func(b *testing.B) {
			require.NoError(b, Run(b.Context(), Config{Ranks: 2}, func(c *Comm) error {
				in, out := make([]float64, n), make([]float64, n)
				for range b.N {
					if err := c.Allreduce(Of(in), Of(out), Sum); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
	b.Run("barrier", func(b *testing.B) {
		require.NoError(b, Run(b.Context(), Config{Ranks: 2}, func(c *Comm) error {
			for range b.N {
				if err := c.Barrier(); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}
