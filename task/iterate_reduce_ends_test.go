// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// ITR-01: reductions in recorded loops, in every form of loop: the values that readers see, in the
// iteration and after it.
func TestITR01_Reductions(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, c := range []struct {
			name string
			a    IterAttrs
			n    int
		}{
			{"counted", IterAttrs{Iterations: 40}, 40},
			{"unrolled", IterAttrs{Iterations: 41, Unroll: 3}, 41},
			{"while", IterAttrs{While: func(t *Task) (bool, error) { return t.Iteration() < 20, nil }}, 20},
			{"final", IterAttrs{Iterations: 15, Attrs: Attrs{Final: true}}, 15},
			{"undeferred", IterAttrs{Iterations: 15, Attrs: Attrs{Undeferred: true}}, 15},
		} {
			x, y, most := 7, 0, 0
			v := make([]int, 5)
			sum, sumY, high := deps.NewReduction(&x, deps.Sum[int]()), deps.NewReduction(&y, deps.Sum[int]()), deps.NewReduction(&x, deps.Max[int]())
			arr := deps.NewSliceReduction(v, deps.Sum[int]())
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.IterateWith(c.a, func(it *Iteration) error {
					for i := range 6 {
						it.Spawn(func(t *Task) error {
							*Local(t, sum) += i
							*Local(t, sumY)++
							if i%2 == 0 {
								if err := t.Release(sum.Reduce()); err != nil {
									return err
								}
							}
							t.Spawn(func(t *Task) error { *Local(t, sumY) += 10; return nil }, sumY.Reduce())
							if i == 3 {
								return t.Sleep(1)
							}
							return nil
						}, sum.Reduce(), sumY.Reduce())
					}
					it.Spawn(func(t *Task) error { // closes sum's group, not y's
						k := t.Iteration()
						n.check(x == 7+15*(k+1), "%s: iteration %d: %d", c.name, k, x)
						return nil
					}, deps.In(&x))
					it.Spawn(func(t *Task) error { *Local(t, high) = 1; return nil }, high.Reduce())
					it.Spawn(func(t *Task) error { return nil }, sumY.Reduce().Weak())
					it.Spawn(func(t *Task) error { // its children open their own groups
						t.Loop(0, 10, func(t *Task, lo, hi int) error {
							for i := range Local(t, arr) {
								Local(t, arr)[i] += hi - lo
							}
							return nil
						}, arr.Reduce())
						return nil
					}, deps.InOut(&v[0]))
					it.Spawn(func(*Task) error { most = max(most, v[4]); return nil }, deps.In(&v[0]), deps.InOut(&most))
					return nil
				}, deps.InOut(&x), deps.InOut(&y), deps.InOut(&v[0]), deps.InOut(&most))
				t.Spawn(func(*Task) error {
					n.check(x == 7+15*c.n && y == 66*c.n && v[2] == 10*c.n, "%s: afterwards: %d, %d, %v", c.name, x, y, v)
					return nil
				}, deps.In(&x), deps.In(&y), deps.In(&v[0]))
				return nil
			}), c.name)
			n.require(t)
			require.Equal(t, []int{7 + 15*c.n, 66 * c.n, 10 * c.n}, []int{x, y, most}, c.name)
		}
	}
}

// Large arrays are combined by several tasks in recorded loops, too; empty ones by none.
func TestIterReduceSlices(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for _, n := range []int{0, 3, 3 * combineGrain} {
		v := make([]int, n)
		r := deps.NewSliceReduction(v, deps.Sum[int]())
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Iterate(5, func(it *Iteration) error {
				for range 3 {
					it.Spawn(func(t *Task) error {
						own := Local(t, r)
						for i := range own {
							own[i]++
						}
						return nil
					}, r.Reduce())
				}
				return nil
			})
			return nil
		}))
		for i := range v {
			require.Equal(t, 15, v[i])
		}
	}
}

// Errors, panics and cancelling in recorded reductions; the reduction can be used again.
func TestIterReduceEnds(t *testing.T) {
	errStop := errors.New("stop")
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		x := 0
		bad := false
		sum := deps.NewReduction(&x, deps.Op[int]{Combine: func(into, from *int) {
			if bad {
				panic(errStop)
			}
			*into += *from
		}})
		for _, how := range []string{"participant fails", "participant blocks and panics", "combination panics"} {
			x = 0
			err := rt.Run(bg, func(t *Task) error {
				t.Iterate(20, func(it *Iteration) error {
					for i := range 5 {
						it.Spawn(func(t *Task) error {
							*Local(t, sum)++
							switch {
							case t.Iteration() < 10 || i != 2:
							case how == "participant fails":
								return errStop
							case how == "participant blocks and panics":
								go t.Unblock()
								_ = t.Block()
								panic(errStop)
							default:
								bad = true
							}
							return nil
						}, sum.Reduce())
					}
					// combines in each iteration
					it.Spawn(func(*Task) error { return nil }, deps.In(&x))
					return nil
				}, deps.InOut(&x))
				return nil
			})
			require.ErrorIs(t, err, errStop, how)
			require.Equal(t, 50, x, how)
			bad = false
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
				return nil
			}))
			require.Equal(t, 51, x, how)
		}
	}
}

func TestIterReduceMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	x := 0
	sum, other := deps.NewReduction(&x, deps.Sum[int]()), deps.NewReduction(&x, deps.Max[int]())
	nop := func(*Task) error { return nil }
	var n notes
	check := func(what string, got string, parts ...string) {
		n.check(contains(got, parts...), "%s: %q", what, got)
	}
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(3, func(it *Iteration) error {
			check("with In", panicOf(func() { it.Spawn(nop, sum.Reduce(), deps.In(&x)) }), "only access of its task")
			check("two", panicOf(func() { it.Spawn(nop, sum.Reduce(), other.Reduce()) }), "only access of its task")
			it.Spawn(func(t *Task) error {
				*Local(t, sum)++
				n.check(t.Release(deps.Concurrent(&x)) != nil, "Release by another mode")
				check("child", panicOf(func() { t.Spawn(nop, deps.In(&x)) }), "its parent reduces")
				n.check(t.Release(sum.Reduce().Weak()) != nil, "Release of what is not declared")
				*Local(t, sum)++
				n.check(t.Release(sum.Reduce()) == nil, "Release")
				check("released", panicOf(func() { Local(t, sum) }), "has released the reduction")
				check("child after Release", panicOf(func() { t.Spawn(nop, sum.Reduce()) }), "given up by Release")
				n.check(t.Release(sum.Reduce()) != nil, "Release twice")
				return nil
			}, sum.Reduce(), sum.Reduce().Weak())
			it.Spawn(func(t *Task) error {
				check("no part", panicOf(func() { Local(t, sum) }), "takes no part")
				return nil
			}, deps.In(&x))
			return nil
		})
		return nil
	}))
	n.require(t)
	require.Equal(t, 6, x)
}

// A replayed reduction allocates nothing.
func TestIterReduceAllocations(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	rt := newTestRuntime(t, Config{Workers: 2})
	x := 0
	sum := deps.NewReduction(&x, deps.Sum[int]())
	const rounds = 2000
	var before, after runtime.MemStats
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(rounds, func(it *Iteration) error {
			for range 10 {
				it.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
			}
			it.Spawn(func(t *Task) error {
				switch t.Iteration() {
				case rounds / 2:
					runtime.ReadMemStats(&before)
				case rounds - 1:
					runtime.ReadMemStats(&after)
				}
				return nil
			}, deps.In(&x))
			return nil
		})
		return nil
	}))
	require.Equal(t, 10*rounds, x)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(rounds/10), fmt.Sprint(after.Mallocs-before.Mallocs))
}

// A recorded task gives up what its children have reduced: no task reads the object before it is
// combined.
func TestIterReleaseCombines(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		x, y := 0, 0
		sum := deps.NewReduction(&x, deps.Sum[int]())
		var n notes
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Iterate(20, func(it *Iteration) error {
				it.Spawn(func(t *Task) error {
					for range 3 {
						t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
					}
					if err := t.Release(deps.InOut(&x)); err != nil {
						return err
					}
					return t.Sleep(1) // others run, which should not see x yet
				}, deps.InOut(&x), deps.InOut(&y))
				it.Spawn(func(t *Task) error {
					k := t.Iteration()
					n.check(x == 3*(k+1), "iteration %d: %d", k, x)
					return nil
				}, deps.In(&x))
				return nil
			}, deps.InOut(&x), deps.InOut(&y))
			return nil
		}))
		n.require(t)
		require.Equal(t, 60, x)
	}
}

// If the run has failed, nothing is combined after the last iteration.
func TestIterReduceLastOfAFailedRun(t *testing.T) {
	errStop := errors.New("stop")
	rt := newTestRuntime(t, Config{Workers: 2})
	for _, fails := range []bool{false, true} {
		x := 0
		sum := deps.NewReduction(&x, deps.Sum[int]())
		err := rt.Run(bg, func(t *Task) error {
			t.Iterate(20, func(it *Iteration) error {
				it.Spawn(func(t *Task) error {
					*Local(t, sum)++
					if fails && t.Iteration() == 10 {
						return errStop
					}
					return nil
				}, sum.Reduce())
				return nil
			}, deps.InOut(&x))
			return nil
		})
		if fails {
			require.ErrorIs(t, err, errStop)
			require.Zero(t, x)
		} else {
			require.NoError(t, err)
			require.Equal(t, 20, x)
		}
	}
}

// A recorded loop opens a group of its reduction for each round. The group may be another one than
// before, since other tasks open and close groups meanwhile.
func TestIterReduceBesideOthersHammer(t *testing.T) {
	skipInLintMode(t, "the others are goroutines of the test, and no bodies")
	const parts = 3
	rounds := 100_000
	if underRace {
		rounds = 10_000
	}
	rt := newTestRuntime(t, Config{Workers: 2})
	x := 0
	sum := deps.NewReduction(&x, deps.Sum[int]())
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				g := accessOf(sum.Reduce()).Reduced().Open(2)
				runtime.Gosched()
				g.Close()
			}
		})
	}
	err := rt.Run(bg, func(t *Task) error {
		t.Iterate(rounds, func(it *Iteration) error {
			for range parts {
				it.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
			}
			it.Spawn(func(*Task) error { return nil }, deps.In(&x))
			return nil
		}, deps.InOut(&x))
		return nil
	})
	stop.Store(true)
	wg.Wait()
	require.NoError(t, err)
	require.Equal(t, rounds*parts, x)
}
