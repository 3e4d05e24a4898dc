// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// A recorded task releases many objects, or ranges, one by one, in any order. A task that uses some
// of them starts when the last of these is released, not before, while the releaser goes on; in
// each round anew. No child may name what the task has released.
func TestIterReleaseOfMany(t *testing.T) {
	const pairs, rounds = 100, 3
	for _, ranges := range []bool{false, true} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("ranges %v/%d", ranges, seed), func(t *testing.T) {
				rt := newTestRuntime(t, Config{Workers: 3})
				var x [2 * pairs]int
				list := make([]deps.Access, len(x))
				for i := range x {
					if list[i] = deps.InOut(&x[i]); ranges {
						list[i] = deps.Slice(x[i : i+1]).InOut()
					}
				}
				order := rand.New(rand.NewPCG(seed, 0)).Perm(len(x))
				var gave [2 * pairs]atomic.Int64 // rounds in which it was given up
				var ran [pairs]atomic.Int64
				var n notes
				require.NoError(t, rt.Run(bg, func(t *Task) error {
					t.Iterate(rounds, func(it *Iteration) error {
						it.Spawn(func(t *Task) error {
							round := ran[0].Load() + 1
							for k, i := range order {
								gave[i].Store(round)
								n.check(t.Release(list[i]) == nil, "Release")
								n.check(contains(t.Release(list[i]).Error(), "before"), "second Release")
								if pair := i / 2; gave[i^1].Load() == round {
									t.Blocking(func() { until(func() bool { return ran[pair].Load() == round }) })
								}
								if k == pairs {
									n.check(contains(panicOf(func() { t.Spawn(nothing, list[i]) }), "given up by Release"), "child")
									t.Spawn(nothing, list[order[len(order)-1]])
									if err := t.Wait(); err != nil {
										return err
									}
								}
							}
							return nil
						}, list...)
						for p := range pairs {
							it.Spawn(func(*Task) error {
								round := ran[p].Load() + 1
								n.check(gave[2*p].Load() == round && gave[2*p+1].Load() == round, "pair %d before both of its objects", p)
								ran[p].Store(round)
								return nil
							}, list[2*p], list[2*p+1])
						}
						return nil
					})
					return t.Wait()
				}))
				n.require(t)
			})
		}
	}
}
