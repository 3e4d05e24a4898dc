// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Reductions in recorded loops give what the plain loop gives. They are combined before a task that
// accesses the object otherwise, in the same iteration or in the next; after the last iteration if
// no task does; and before each condition.
func TestIterReductions(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, form := range []string{"reader", "reader before", "writer between", "alone", "while", "two reductions", "the loop's", "unrolled"} {
			for _, final := range []bool{false, true} {
				const n, parts = 13, 6
				var sum, seen, want, wantSeen int
				r := deps.NewReduction(&sum, deps.Sum[int]())
				low := deps.NewReduction(&sum, deps.Max[int]())
				// The plain loop.
				for k := range n {
					if form == "reader before" {
						wantSeen = wantSeen*3 + want
					}
					for i := range parts {
						want += i*k + 1
						if form == "writer between" && i == parts/2 {
							want *= 2
						}
					}
					switch form {
					case "reader", "while":
						wantSeen = wantSeen*3 + want
					case "two reductions":
						want = max(want, 1000*k)
					case "unrolled":
						if k%3 == 1 {
							wantSeen = wantSeen*3 + want
						}
					}
				}
				a := IterAttrs{Iterations: n}
				if form == "unrolled" {
					a.Unroll = 3
				}
				if form == "while" {
					a.While = func(t *Task) (bool, error) {
						if k := t.Iteration(); k > 0 {
							seen = seen*3 + sum
						}
						return true, nil
					}
					a.Iterations++ // the condition is not called after the last iteration
				}
				read := func(*Task) error { seen = seen*3 + sum; return nil }
				accs := []deps.Access{deps.InOut(&sum)}
				if form == "the loop's" {
					accs[0] = r.Reduce()
				}
				err := rt.Run(bg, func(t *Task) error {
					t.SpawnWith(Attrs{Final: final}, func(t *Task) error {
						t.IterateWith(a, func(it *Iteration) error {
							if form == "reader before" {
								it.Spawn(read, deps.In(&sum))
							}
							for i := range parts {
								it.Spawn(func(t *Task) error {
									if form == "while" && t.Iteration() == n {
										return nil
									}
									*Local(t, r) += i * t.Iteration()
									if i%2 == 0 {
										t.Spawn(func(t *Task) error { *Local(t, r)++; return nil }, r.Reduce())
										return nil
									}
									*Local(t, r)++
									switch i {
									case 3:
										return t.Release(r.Reduce())
									case 5:
										end := t.Hold()
										go end(nil)
									}
									return nil
								}, r.Reduce())
								if form == "writer between" && i == parts/2 {
									it.Spawn(func(*Task) error { sum *= 2; return nil }, deps.InOut(&sum))
								}
							}
							switch form {
							case "reader":
								it.Spawn(read, deps.In(&sum))
							case "two reductions":
								it.Spawn(func(t *Task) error { *Local(t, low) = max(*Local(t, low), 1000*t.Iteration()); return nil }, low.Reduce())
							case "unrolled":
								if it.Number() == 1 {
									it.Spawn(read, deps.In(&sum))
								}
							}
							return nil
						}, accs...)
						t.Spawn(func(*Task) error {
							if sum != want {
								return fmt.Errorf("after the loop: %d, not %d", sum, want)
							}
							return nil
						}, deps.In(&sum))
						return t.Wait()
					}, deps.InOut(&sum).Weak())
					return nil
				})
				what := fmt.Sprintf("%s, final %v, %d workers", form, final, workers)
				require.NoError(t, err, what)
				require.Equal(t, want, sum, what)
				require.Equal(t, wantSeen, seen, what)
			}
		}
	}
}

// Random loops with reductions of slices, some tasks of which read.
func TestIterRandomReductions(t *testing.T) {
	programs := uint64(60)
	if underRace {
		programs = 12
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for seed := range programs {
			rnd := rand.New(rand.NewPCG(seed, 4))
			iterations, unroll := 1+rnd.IntN(9), 1+rnd.IntN(3)
			type job struct {
				v     int
				reads bool
			}
			jobs := make([][]job, unroll)
			for u := range jobs {
				jobs[u] = make([]job, rnd.IntN(8))
				for i := range jobs[u] {
					jobs[u][i] = job{rnd.IntN(2), rnd.IntN(4) == 0}
				}
			}
			var v, want [2][5]int
			var seen, wantSeen [2]int
			var r [2]*deps.SliceReduction[int]
			for i := range v {
				r[i] = deps.NewSliceReduction(v[i][:], deps.Sum[int]())
			}
			for k := range iterations {
				for i, j := range jobs[k%unroll] {
					for e := range want[j.v] {
						if j.reads {
							wantSeen[j.v] = wantSeen[j.v]*3 + want[j.v][e]
						} else {
							want[j.v][e] += i + k*e
						}
					}
				}
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.IterateWith(IterAttrs{Iterations: iterations, Unroll: unroll}, func(it *Iteration) error {
					for i, j := range jobs[it.Number()%len(jobs)] {
						if j.reads {
							it.Spawn(func(t *Task) error {
								for _, x := range v[j.v] {
									seen[j.v] = seen[j.v]*3 + x
								}
								return nil
							}, deps.In(&v[j.v][0]), deps.InOut(&seen[j.v]))
							continue
						}
						it.Spawn(func(t *Task) error {
							own := Local(t, r[j.v])
							for e := range own {
								own[e] += i + t.Iteration()*e
							}
							return nil
						}, r[j.v].Reduce())
					}
					return nil
				})
				return nil
			}), "seed %d", seed)
			require.Equal(t, want, v, "seed %d", seed)
			require.Equal(t, wantSeen, seen, "seed %d", seed)
		}
	}
}

func TestIterReductionMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var x int
	boom := errors.New("boom")
	r := deps.NewReduction(&x, deps.Sum[int]())
	none := func(*Task) error { return nil }
	var n notes
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(3, func(it *Iteration) error {
			n.check(contains(panicOf(func() { it.Spawn(none, r.Reduce(), deps.In(&x)) }), "only access of its task"), "both")
			return nil
		})
		t.Iterate(3, func(it *Iteration) error {
			n.check(contains(panicOf(func() { it.Spawn(none, deps.In(&x)) }), "its parent reduces"), "the loop's own")
			it.Spawn(func(t *Task) error {
				n.check(contains(fmt.Sprint(t.Release(r.Reduce().Weak())), "other strength"), "strength")
				n.check(t.Release(r.Reduce()) == nil, "Release")
				n.check(contains(fmt.Sprint(t.Release(r.Reduce())), "given it up before"), "twice")
				n.check(contains(panicOf(func() { Local(t, r) }), "has released"), "Local")
				return nil
			}, r.Reduce())
			it.Spawn(func(t *Task) error {
				n.check(contains(fmt.Sprint(t.Release(r.Reduce())), "has not declared"), "undeclared")
				return nil
			})
			return nil
		}, r.Reduce())
		return t.Wait()
	}))
	n.require(t)

	// A run that fails does not combine, and does not hang.
	var ran atomic.Int32
	require.ErrorIs(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(1<<40, func(it *Iteration) error {
			for range 3 {
				it.Spawn(func(t *Task) error {
					*Local(t, r)++
					if ran.Add(1) == 100 {
						return boom
					}
					return nil
				}, r.Reduce())
			}
			it.Spawn(none, deps.In(&x))
			return nil
		})
		return nil
	}), boom)
}
