// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// Long runs, round after round, between a writer and a reader, with memory that is reused at once:
// after each step exactly those tasks run that the model allows.
func TestLongRuns(t *testing.T) {
	const rounds, size = 4, 60
	for name, of := range map[string]func(i int, r *rand.Rand) []decl{
		"readers":    func(int, *rand.Rand) []decl { return []decl{{0, chain.ModeIn, false}} },
		"concurrent": func(int, *rand.Rand) []decl { return []decl{{0, chain.ModeConcurrent, false}} },
		"reductions": func(int, *rand.Rand) []decl { return []decl{{0, chain.ModeReduce, false}} },
		"commutative": func(i int, _ *rand.Rand) []decl {
			return []decl{{0, chain.ModeCommutative, false}, {1 + i%3, chain.ModeIn, false}}
		},
		"two objects": func(i int, _ *rand.Rand) []decl {
			return []decl{{i % 2, chain.ModeConcurrent, false}, {2, chain.ModeIn, false}}
		},
		"mixed": func(i int, r *rand.Rand) []decl {
			return []decl{{0, allModes[i/6%len(allModes)], r.IntN(4) == 0}, {1 + r.IntN(3), chain.ModeIn, false}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 9))
			w := newWorld(4)
			for round := range rounds {
				spawn := func(i int, list []decl) {
					_, refused := w.spawn(w.root, fmt.Sprintf("%d.%d", round, i), list)
					require.Nil(t, refused)
					if r.IntN(3) == 0 {
						if run := w.in(running); len(run) > 0 {
							w.end(run[r.IntN(len(run))])
						}
					}
				}
				spawn(0, []decl{{0, chain.ModeInOut, false}, {1 + round%3, chain.ModeInOut, false}})
				for i := range size {
					spawn(1+i, of(i, r))
				}
				spawn(size+1, []decl{{0, chain.ModeIn, false}})
			}
			w.finish(r.IntN)
			require.NoError(t, w.err)
			require.Less(t, w.fresh, len(w.tasks), "memory is used again")
			require.Zero(t, chain.Resources())
		})
	}
}

// The same with objects and ranges of the same bytes.
func TestLongRunsOfRanges(t *testing.T) {
	const rounds, size = 3, 16
	for _, m := range []chain.Mode{chain.ModeIn, chain.ModeConcurrent, chain.ModeCommutative} {
		for _, objects := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, objects %v", m, objects), func(t *testing.T) {
				r := rand.New(rand.NewPCG(2, 9))
				w := newRWorld()
				for round := range rounds {
					spawn := func(i int, d rdecl) {
						_, refused := w.spawn(w.root, fmt.Sprintf("%d.%d", round, i), []rdecl{d})
						require.Nil(t, refused)
						if r.IntN(3) == 0 {
							if run := w.in(running); len(run) > 0 {
								w.end(run[r.IntN(len(run))])
							}
						}
					}
					spawn(0, rdecl{lo: 0, hi: 12, mode: chain.ModeInOut})
					for i := range size {
						d := rdecl{lo: r.IntN(6), mode: m}
						d.hi = d.lo + 1 + r.IntN(6)
						if v := rvars[i%len(rvars)]; objects && i%3 == 0 {
							d.lo, d.hi, d.object = v.lo, v.hi, true
						}
						spawn(1+i, d)
					}
					spawn(size+1, rdecl{lo: 2, hi: 9, mode: chain.ModeIn})
				}
				for w.err == nil && len(w.in(running)) > 0 {
					run := w.in(running)
					w.end(run[r.IntN(len(run))])
				}
				require.NoError(t, w.err)
				require.Empty(t, w.in(waiting))
				w.end(w.root)
				require.NoError(t, w.err)
				require.Zero(t, chain.Resources())
			})
		}
	}
}
