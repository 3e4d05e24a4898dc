// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// counting is a sum that counts the copies that groups use.
func counting(used *atomic.Int32) deps.Op[int] {
	return deps.Op[int]{
		Init:    func(p *int) { *p = 0; used.Add(1) },
		Combine: func(into, from *int) { *into += *from },
	}
}

// Slices: small ones, and ones that several tasks combine.
func TestReduceSlices(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, n := range []int{0, 1, 100, 3 * combineGrain} {
			for _, final := range []bool{false, true} {
				v := make([]int, n+2)
				for i := range v {
					v[i] = i
				}
				r := deps.NewSliceReduction(v[1:n+1], deps.Sum[int]())
				const members = 6
				require.NoError(t, rt.Run(bg, func(t *Task) error {
					for m := range members {
						t.SpawnWith(Attrs{Final: final}, func(t *Task) error {
							own := Local(t, r)
							if len(own) != n || cap(own) != n {
								return errors.New("wrong length")
							}
							if m%2 == 0 {
								if err := t.Sleep(1); err != nil { // others run meanwhile
									return err
								}
							}
							for i := range own {
								own[i] += m * i
							}
							return nil
						}, r.Reduce())
					}
					return nil
				}))
				for i := range v {
					want := i
					if i > 0 && i <= n {
						want += (members - 1) * members / 2 * (i - 1)
					}
					require.Equal(t, want, v[i])
				}
			}
		}
	}
}

// A loop takes part: in a tree, in a row, with the loop's own accesses, nested.
func TestReduceLoops(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 64})
		const n = 2000
		for name, a := range map[string]LoopAttrs{
			"default": {}, "grain 1": {Grain: 1}, "grain 7": {Grain: 7}, "priority": {Grain: 3, Attrs: Attrs{Priority: 1}},
			"final": {Grain: 9, Attrs: Attrs{Final: true}}, "undeferred": {Grain: 20, Attrs: Attrs{Undeferred: true}},
			"wait": {Grain: 9, Attrs: Attrs{Wait: true}},
		} {
			x, y, hist := 1, 0, make([]int, 8)
			sum, bins := deps.NewReduction(&x, deps.Sum[int]()), deps.NewSliceReduction(hist, deps.Sum[int]())
			marks := make([]int, n)
			seen := 0
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.LoopWith(a, 0, n, func(t *Task, lo, hi int) error {
					for i := lo; i < hi; i++ {
						*Local(t, sum) += i
						Local(t, bins)[i%8]++
					}
					return nil
				}, sum.Reduce(), bins.Reduce())
				t.Spawn(func(*Task) error { seen = x; return nil }, deps.In(&x))

				// Accesses per chunk in addition to the reduction, twice.
				b := a
				b.Grain = 50
				b.Accesses = func(lo, hi int) []deps.Access { return []deps.Access{deps.InOut(&marks[lo])} }
				for range 2 {
					t.LoopWith(b, 0, n, func(t *Task, lo, hi int) error {
						for i := lo; i < hi; i++ {
							marks[i]++
							*Local(t, sum) += marks[i]
						}
						return nil
					}, sum.Reduce())
				}

				// Nested: the chunks of the outer loop contribute, and those of the inner one.
				outer := deps.NewReduction(&y, deps.Sum[int]())
				t.LoopWith(LoopAttrs{Grain: 1}, 0, 20, func(t *Task, lo, hi int) error {
					*Local(t, outer)++
					t.LoopWith(LoopAttrs{Grain: 1, Attrs: a.Attrs}, 0, 20, func(t *Task, lo, hi int) error {
						*Local(t, outer) += 100
						return nil
					}, outer.Reduce())
					return nil
				}, outer.Reduce())
				return nil
			}), name)
			require.Equal(t, 1+n*(n-1)/2, seen, name)
			require.Equal(t, seen+3*n, x, name)
			require.Equal(t, 20+400*100, y, name)
			for _, h := range hist {
				require.Equal(t, n/8, h, name)
			}
		}
	}
}

// A participant may wait in every way. It keeps its copy, also while other tasks run on its slot.
func TestReduceWaitingInside(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var used atomic.Int32
		x, y := 0, 0
		sum := deps.NewReduction(&x, counting(&used))
		var n notes
		var m Mutex
		const members = 210
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range members {
				t.Spawn(func(t *Task) error {
					own := Local(t, sum)
					before := *own
					*own = -1 - i
					var err error
					switch i % 7 {
					case 0:
						go t.Unblock()
						err = t.Block()
					case 1:
						err = t.Await(func(done func()) { go done() })
					case 2:
						t.Blocking(runtime.Gosched)
					case 3:
						err = t.Sleep(1)
					case 4:
						err = t.Critical(&m, func() error { return t.Sleep(1) })
					case 5:
						for range 3 {
							t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
						}
						before -= 3
						err = t.Wait()
					case 6:
						t.Spawn(func(t *Task) error { y++; return nil }, deps.InOut(&y))
						err = t.WaitOn(deps.In(&y))
					}
					n.check(own == Local(t, sum) && *own == -1-i, "participant %d: another one has used its copy", i)
					*own = before + 1
					return err
				}, sum.Reduce(), deps.InOut(&y).Weak())
			}
			return nil
		}))
		n.require(t)
		require.Equal(t, members, x)
		require.Equal(t, members/7, y)
	}
}

// What an event writes into a copy after the body is combined: the copy is kept until the events
// are over.
func TestReduceEvents(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		x := 0
		sum := deps.NewReduction(&x, deps.Sum[int]())
		var late []func(error)
		var n notes
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 100 {
				t.Spawn(func(t *Task) error {
					own := Local(t, sum)
					end := t.Hold()
					go func() {
						*own += 10
						end(nil)
					}()
					return nil
				}, sum.Reduce())
				t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
			}
			if err := t.WaitOn(deps.In(&x)); err != nil {
				return err
			}
			n.check(x == 1100, "x is %d", x)

			// Ended by a task of the same slot.
			for range 10 {
				t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error {
					own := Local(t, sum)
					end := t.Hold()
					late = append(late, func(error) { *own += 100; end(nil) })
					return nil
				}, sum.Reduce())
			}
			t.Spawn(func(t *Task) error {
				for _, f := range late {
					f(nil)
				}
				return nil
			})
			return nil
		}))
		n.require(t)
		require.Equal(t, 2100, x)
	}
}

// There are at most as many copies as participants at one time. If bodies do not wait, there are as
// many as slots, however many participants there are.
func TestReduceCopiesBounded(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var used atomic.Int32
		x := 0
		sum := deps.NewReduction(&x, counting(&used))
		for range 5 {
			x = 0
			used.Store(0)
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for range 2000 {
					t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
				}
				return nil
			}))
			require.Equal(t, 2000, x)
			require.LessOrEqual(t, used.Load(), int32(workers))
		}

		// All wait at one time: as many copies; the next group needs fewer again.
		used.Store(0)
		const waiting = 50
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			var in atomic.Int32
			for range waiting {
				t.Spawn(func(t *Task) error {
					*Local(t, sum)++
					in.Add(1)
					t.Blocking(func() { until(func() bool { return in.Load() == waiting }) })
					return nil
				}, sum.Reduce())
			}
			return nil
		}))
		require.EqualValues(t, waiting, used.Load())
		require.Equal(t, 2000+waiting, x)
		used.Store(0)
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Loop(0, 1000, func(t *Task, lo, hi int) error { *Local(t, sum)++; return nil }, sum.Reduce())
			return nil
		}))
		require.LessOrEqual(t, used.Load(), int32(workers))
	}
}

// A participant that never calls Local costs no copy.
func TestReduceWithoutCopies(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var used atomic.Int32
	x := 3
	sum := deps.NewReduction(&x, counting(&used))
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 10 {
			t.Spawn(func(*Task) error { return nil }, sum.Reduce())
		}
		return nil
	}))
	require.Equal(t, 3, x)
	require.Zero(t, used.Load())
}

// Combine and Init may panic: the run ends with an error that says where.
func TestReducePanics(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, n := range []int{1, 4 * combineGrain} {
			v := make([]int, n)
			bad := deps.NewSliceReduction(v, deps.Op[int]{Combine: func(into, from *int) { panic(fmt.Sprintf("cannot combine %d", *from)) }})
			after := false
			err := rt.Run(bg, func(t *Task) error {
				t.Spawn(func(t *Task) error { Local(t, bad)[0] = 5; return nil }, bad.Reduce())
				t.Spawn(func(t *Task) error { after = true; return nil }, deps.In(&v[0]))
				return nil
			})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "combine", e.Label)
			require.Contains(t, e.Site, "reduce_test.go", "where the reduction was made")
			require.True(t, strings.HasPrefix(fmt.Sprint(e.Panic), "cannot combine "), e.Panic)
			require.False(t, after)
			require.Zero(t, v[0])
		}

		x := 1
		noInit := deps.NewReduction(&x, deps.Op[int]{Init: func(*int) { panic("no value") }, Combine: func(into, from *int) { *into += *from }})
		err := rt.Run(bg, func(t *Task) error {
			t.SpawnWith(Attrs{Label: "participant"}, func(t *Task) error { *Local(t, noInit) = 1; return nil }, noInit.Reduce())
			return nil
		})
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "participant", e.Label)
		require.Equal(t, "no value", e.Panic)
		require.Equal(t, 1, x)
	}
}

// A run that ends early combines nothing more, and leaves nothing in the reduction: the next run
// starts afresh.
func TestReduceCancelled(t *testing.T) {
	errStop := errors.New("stop")
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		x := 7
		sum := deps.NewReduction(&x, deps.Sum[int]())
		for _, how := range []string{"context", "participant fails", "participant panics", "event fails", "creator fails", "creator panics", "creator in Wait"} {
			x = 7
			ctx, cancel := context.WithCancelCause(bg)
			in := make(chan struct{}, 100)
			err := rt.Run(ctx, func(t *Task) error {
				for i := range 10 {
					t.Spawn(func(t *Task) error {
						*Local(t, sum) += 100
						in <- struct{}{}
						switch {
						case i < 9:
						case how == "participant fails":
							return errStop
						case how == "participant panics":
							panic(errStop)
						case how == "event fails":
							end := t.Hold()
							go end(errStop)
							return nil
						}
						_ = t.Block() // until the run ends
						return nil
					}, sum.Reduce())
				}
				t.Spawn(func(*Task) error { x = -1; return nil }, deps.InOut(&x))
				t.Blocking(func() {
					for range 10 {
						select {
						case <-in:
						case <-t.Context().Done():
						}
					}
				})
				switch how {
				case "context", "creator in Wait":
					cancel(errStop)
				case "creator fails":
					return errStop
				case "creator panics":
					panic(errStop)
				}
				if how == "creator in Wait" {
					return t.Wait()
				}
				return nil
			})
			cancel(nil)
			require.ErrorIs(t, err, errStop, how)
			require.Equal(t, 7, x, how)
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for range 10 {
					t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
				}
				return nil
			}))
			require.Equal(t, 17, x, how)
		}
	}
}

// Misuse panics with texts that say what is legal.
func TestReduceMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	x, y := 0, 0
	sum, other, sumY := deps.NewReduction(&x, deps.Sum[int]()), deps.NewReduction(&x, deps.Max[int]()), deps.NewReduction(&y, deps.Sum[int]())
	nop := func(*Task) error { return nil }
	var n notes
	check := func(what string, got string, parts ...string) {
		n.check(contains(got, parts...), "%s: %q", what, got)
	}
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		outer := t
		run := func(f func(t *Task), accs ...deps.Access) {
			outer.SpawnWith(Attrs{Label: "it", Undeferred: true}, func(t *Task) error { f(t); return nil }, accs...)
		}
		run(func(t *Task) {
			check("no part", panicOf(func() { Local(t, sumY) }), "Local on task it", "takes no part", "Reduce()")
			check("other of the same object", panicOf(func() { Local(t, other) }), "takes no part")
			check("child in In", panicOf(func() { t.Spawn(nop, deps.In(&x)) }), "task it", "In(0x", "its parent reduces")
			check("child in weak InOut", panicOf(func() { t.Spawn(nop, deps.InOut(&x).Weak()) }), "its parent reduces")
			check("child in another reduction", panicOf(func() { t.Spawn(nop, other.Reduce()) }), "its parent reduces")
			check("WaitOn", panicOf(func() { _ = t.WaitOn(deps.In(&x)) }), "its parent reduces")
			check("in another's", panicOf(func() { Local(outer, sum) }), "Local on", "only its own body may")
			*Local(t, sum)++ // all is as before
			n.check(t.Release(sum.Reduce().Weak()) != nil && t.Release(deps.InOut(&x)) != nil, "Release of what is not declared")
			*Local(t, sum)++
			n.check(t.Release(sum.Reduce()) == nil, "Release")
			check("released", panicOf(func() { Local(t, sum) }), "has released the reduction")
			check("child after Release", panicOf(func() { t.Spawn(nop, sum.Reduce()) }), "given up by Release")
			n.check(t.Release(sum.Reduce()) != nil, "Release twice")
		}, sum.Reduce())
		run(func(t *Task) {
			check("weak", panicOf(func() { Local(t, sum) }), "is weak", "descendants")
		}, sum.Reduce().Weak())
		check("weak and strong", panicOf(func() {
			run(func(t *Task) { *Local(t, sum)++ }, sum.Reduce().Weak(), sum.Reduce(), sum.Reduce().Weak())
		}))
		check("with In", panicOf(func() { t.Spawn(nop, sum.Reduce(), deps.In(&x)) }), "as Reduce and as In")
		check("with InOut", panicOf(func() { t.Spawn(nop, deps.Out(&x), sum.Reduce()) }), "as InOut and as Reduce")
		check("two reductions", panicOf(func() { t.Spawn(nop, sum.Reduce(), other.Reduce()) }), "two reductions")
		check("WaitOn", panicOf(func() { _ = t.WaitOn(sum.Reduce()) }), "waits for nothing", "deps.In")
		check("in OnReady", panicOf(func() {
			t.SpawnWith(Attrs{Label: "early", Undeferred: true, OnReady: func(t *Task) error {
				check("Local in OnReady", panicOf(func() { Local(t, sum) }), "Local on task early", "its body is not running")
				return nil
			}}, nop, sum.Reduce())
		}))
		return nil
	}))
	n.require(t)
	require.Equal(t, 3, x)
}

// The end of a group resets the creator's flag, and leaves groups of other objects open.
func TestReduceLeavesNothing(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	x, y := 0, 0
	sx, sy := deps.NewReduction(&x, deps.Sum[int]()), deps.NewReduction(&y, deps.Sum[int]())
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		before := t.node.Flags
		for range 3 {
			t.Spawn(func(t *Task) error { *Local(t, sx)++; *Local(t, sy)++; return nil }, sx.Reduce(), sy.Reduce())
			t.Spawn(func(t *Task) error { return nil }, deps.In(&x))
			if groupsOf(t.more).Len() != 1 || t.node.Flags&flagLongSpawn == 0 {
				return errors.New("y's group is not open")
			}
			if err := t.WaitOn(deps.In(&y)); err != nil {
				return err
			}
			if groupsOf(t.more).Len() != 0 || t.node.Flags&flagLongSpawn != before&flagLongSpawn {
				return errors.New("something is left")
			}
		}
		return nil
	}))
	require.Equal(t, []int{3, 3}, []int{x, y})
}

// A task cannot take part in two reductions of overlapping memory, which would be combined at the
// same time. Nothing of the refused task is left.
func TestReduceOverlapping(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	v := make([]int, 4)
	whole, part := deps.NewSliceReduction(v, deps.Sum[int]()), deps.NewSliceReduction(v[2:], deps.Sum[int]())
	same, apart := deps.NewReduction(&v[0], deps.Sum[int]()), new(int)
	none := func(*Task) error { return nil }
	var n notes
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for _, list := range [][]deps.Access{
			{deps.InOut(apart), whole.Reduce(), part.Reduce()}, {part.Reduce(), whole.Reduce().Weak()}, {whole.Reduce(), same.Reduce()},
		} {
			text := panicOf(func() { t.Spawn(none, list...) })
			n.check(contains(text, "deps: a task takes part in", "only access of its task"), "%q", text)
		}
		// In several tasks they are legal. They have different names, so it takes a range to order
		// their combinations.
		t.Spawn(none, deps.Slice(v).In())
		for range 3 {
			t.Spawn(func(t *Task) error { Local(t, whole)[3]++; return nil }, whole.Reduce())
			t.Spawn(func(t *Task) error { Local(t, part)[1]++; return nil }, part.Reduce())
		}
		return t.Wait()
	}))
	n.require(t)
	require.Equal(t, []int{0, 0, 0, 6}, v)
}

// A participant allocates its closure only, and a group one closure for its combination.
func TestReduceAllocations(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	rt := newTestRuntime(t, Config{Workers: 2})
	x := 0
	sum := deps.NewReduction(&x, deps.Sum[int]())
	const groups, members = 200, 100
	var before, after runtime.MemStats
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for round := range 2 {
			if round == 1 { // with warm pools
				runtime.ReadMemStats(&before)
			}
			for range groups {
				for i := range members {
					t.Spawn(func(t *Task) error { *Local(t, sum) += i; return nil }, sum.Reduce())
				}
				if err := t.Wait(); err != nil {
					return err
				}
			}
		}
		runtime.ReadMemStats(&after)
		return nil
	}))
	require.Equal(t, 2*groups*members*(members-1)/2, x)
	require.LessOrEqual(t, float64(after.Mallocs-before.Mallocs), 1.05*groups*(members+1))
}

// BenchmarkReduce measures a participant, an independent task for comparison, and a group of 100
// with its combination.
func BenchmarkReduce(b *testing.B) {
	for _, workers := range []int{1, 2} {
		for _, kind := range []string{"independent", "participant", "tree"} {
			b.Run(fmt.Sprintf("%s/workers=%d", kind, workers), func(b *testing.B) {
				rt := New(Config{Workers: workers})
				defer rt.Close()
				var x int
				sum := deps.NewReduction(&x, deps.Sum[int]())
				b.ReportAllocs()
				err := rt.Run(bg, func(t *Task) error {
					if kind == "tree" {
						t.LoopWith(LoopAttrs{Grain: 1}, 0, b.N, func(t *Task, lo, hi int) error { *Local(t, sum)++; return nil }, sum.Reduce())
						return nil
					}
					for range b.N {
						if kind == "participant" {
							t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
						} else {
							t.Spawn(func(*Task) error { return nil })
						}
					}
					return nil
				})
				if err != nil || kind != "independent" && x < b.N {
					b.Fatal(err, x, b.N)
				}
			})
		}
	}
}
