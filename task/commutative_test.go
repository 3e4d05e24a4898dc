// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Release ends the exclusion; an event and the attribute Wait prolong it.
func TestCommutativeKeptAndReleased(t *testing.T) {
	play(t, `
		spawn A commutative(x,y)          | A
		spawn B commutative(x)            | A
		spawn C commutative(y)            | A
		release A commutative(x)          | A B
		hold A                            | A B
		end A                             | B
		event A                           | B C
		end B C                           |
		spawn+wait P commutative(x)       | P
		spawn P.1 inout(z)                | P P.1
		spawn Q commutative(x)            | P P.1
		end P                             | P.1
		end P.1                           | Q
	`)
}

// Undeferred and final tasks wait for their objects like other tasks.
func TestCommutativeUndeferred(t *testing.T) {
	play(t, `
		spawn A commutative(x)            | A
		spawn B                           | A B
		undeferred B.1 commutative(x)     | A B?
		end A                             | B? B.1
		end B.1                           | B
		waiton B commutative(x)           | B
		end B                             |
		spawn A2 commutative(x)           | A2
		spawn+final F                     | A2 F
		spawn F.1 commutative(x)          | A2 F?
		end A2                            | F? F.1
		end F.1                           | F
		spawn G commutative(x)            | F G
		waiton F commutative(x)           | F? G
		end G                             | F
	`)
}

// A task does not hold its objects while it waits for the events of its OnReady: B holds x, and
// ends A's event.
func TestCommutativeOnReady(t *testing.T) {
	for _, outside := range []bool{false, true} {
		for _, workers := range []int{1, 2, 4} {
			rt := newTestRuntime(t, Config{Workers: workers})
			var x int
			var order []string
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				ends := make(chan func(error), 1)
				t.SpawnWith(Attrs{Label: "A", OnReady: func(t *Task) error {
					ends <- t.Hold()
					return nil
				}}, func(*Task) error {
					x++
					order = append(order, "A")
					return nil
				}, deps.Commutative(&x))
				t.Spawn(func(t *Task) error {
					x++
					order = append(order, "B")
					var end func(error)
					t.Blocking(func() { end = <-ends })
					if outside {
						done := make(chan bool)
						go func() { end(nil); close(done) }()
						<-done
					} else {
						end(nil)
					}
					order = append(order, "B is over")
					return nil
				}, deps.Commutative(&x))
				return nil
			}))
			require.Equal(t, []string{"B", "B is over", "A"}, order)
		}
	}
}

// A failing run leaves no object held: tasks that wait are skipped in order, and the next run gets
// the objects.
func TestCommutativeFailure(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	boom := errors.New("boom")
	var x, y int
	for name, body := range map[string]func(*Task) error{
		"error":  func(*Task) error { return boom },
		"panic":  func(*Task) error { panic(boom) },
		"goexit": func(*Task) error { runtime.Goexit(); return nil },
		"event":  func(t *Task) error { end := t.Hold(); go end(boom); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			err := rt.Run(bg, func(t *Task) error {
				for i := range 20 {
					t.Spawn(func(*Task) error { x++; return nil }, deps.Commutative(&x))
					t.Spawn(func(*Task) error { y++; return nil }, deps.Commutative(&y), deps.Commutative(&x))
					t.SpawnWith(Attrs{OnReady: func(t *Task) error { end := t.Hold(); go end(nil); return nil }},
						func(*Task) error { return nil }, deps.Commutative(&y))
					if i == 10 {
						t.Spawn(body, deps.Commutative(&x), deps.Commutative(&y))
					}
				}
				return nil
			})
			require.Error(t, err)
			x, y = 0, 0
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for range 10 {
					t.Spawn(func(*Task) error { x++; y++; return nil }, deps.Commutative(&x), deps.Commutative(&y))
				}
				return nil
			}))
			require.Equal(t, []int{10, 10}, []int{x, y})
		})
	}
}

// The end of the context while one task holds the object and others wait for it.
func TestCommutativeCancel(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var x, y int
	ran := 0
	ctx, cancel := context.WithCancel(bg)
	require.ErrorIs(t, rt.Run(ctx, func(t *Task) error {
		t.Spawn(func(t *Task) error {
			cancel()
			<-t.Context().Done()
			ran++
			return t.Block()
		}, deps.Commutative(&x))
		for range 10 {
			t.Spawn(func(*Task) error { ran++; return nil }, deps.Commutative(&x), deps.Commutative(&y).Weak())
		}
		return t.Wait()
	}), context.Canceled)
	require.Equal(t, 1, ran)
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Spawn(func(*Task) error { ran++; return nil }, deps.Commutative(&x), deps.Commutative(&y))
		return nil
	}))
	require.Equal(t, 2, ran)
}

// Tasks of several runs, of two runtimes and detached ones exclude each other.
func TestCommutativeAcrossRuns(t *testing.T) {
	var rts [2]*Runtime
	for i := range rts {
		rts[i] = newTestRuntime(t, Config{Workers: 2})
	}
	const each = 300
	var x int
	var inside atomic.Int32
	var n notes
	main := func(t *Task) error {
		for i := range each {
			t.Spawn(func(t *Task) error {
				n.check(inside.Add(1) == 1, "two tasks have x")
				x++
				if i%8 == 0 {
					t.Blocking(func() {})
				}
				inside.Add(-1)
				return nil
			}, deps.Commutative(&x))
		}
		return nil
	}
	done := make(chan error, 8)
	for i := range 4 {
		go func() { done <- rts[i%2].Run(bg, main) }()
		rts[i%2].Spawn(bg, main).OnDone(func(err error) { done <- err })
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	n.require(t)
	require.Equal(t, 8*each, x)
}

// A task that needs eight objects is not starved by tasks that need one object each and are spawned
// while it waits.
func TestCommutativeNobodyStarves(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var objs [8]int
		var over atomic.Bool
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			var all []deps.Access
			for i := range objs {
				all = append(all, deps.Commutative(&objs[i]))
			}
			for i := range objs {
				t.Spawn(func(t *Task) error {
					for k := 0; k < 10 || !over.Load(); k++ {
						for range 3 { // one task holds the object, others wait for it
							t.Spawn(func(t *Task) error {
								objs[i]++
								t.Blocking(func() {})
								return nil
							}, all[i])
						}
						if err := t.Wait(); err != nil {
							return err
						}
					}
					return nil
				})
			}
			t.Spawn(func(*Task) error { over.Store(true); return nil }, all...)
			return nil
		}))
		require.True(t, over.Load())
	}
}

// Chunks of a loop with Commutative accesses.
func TestCommutativeLoop(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 4})
	const n = 2000
	var bins [7]int
	var sum int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.LoopWith(LoopAttrs{Grain: 5, Accesses: func(lo, hi int) []deps.Access {
			return []deps.Access{deps.Commutative(&bins[lo%len(bins)]), deps.Commutative(&bins[(lo+3)%len(bins)])}
		}}, 0, n, func(t *Task, lo, hi int) error {
			bins[lo%len(bins)] += hi - lo
			bins[(lo+3)%len(bins)] -= hi - lo
			return nil
		})
		t.LoopWith(LoopAttrs{Grain: 10}, 0, n, func(t *Task, lo, hi int) error {
			for i := lo; i < hi; i++ {
				sum += i
			}
			return nil
		}, deps.Commutative(&sum))
		return nil
	}))
	require.Equal(t, n*(n-1)/2, sum)
	total := 0
	for _, b := range bins {
		total += b
	}
	require.Zero(t, total)
}

// Recorded tasks are ordered as by InOut. The loop as a whole is a member of the group, and holds
// the object for all its descendants.
func TestCommutativeIterate(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 4})
	var x, y int
	for name, access := range map[string]deps.Access{
		"commutative": deps.Commutative(&x), "weak": deps.Commutative(&x).Weak(), "inout": deps.InOut(&x),
	} {
		t.Run(name, func(t *testing.T) {
			x, y = 0, 0
			main := func(t *Task) error {
				for range 5 {
					t.Spawn(func(*Task) error { x++; return nil }, deps.Commutative(&x))
				}
				t.Iterate(20, func(it *Iteration) error {
					for k := range 3 {
						it.Spawn(func(t *Task) error {
							x++
							t.Spawn(func(t *Task) error {
								t.Spawn(func(t *Task) error { x++; return nil }, deps.Commutative(&x))
								return nil
							}, deps.InOut(&x).Weak())
							t.SpawnWith(Attrs{Undeferred: k == 1}, func(t *Task) error { x++; return nil }, deps.Commutative(&x))
							return nil
						}, deps.Commutative(&x))
					}
					it.Spawn(func(*Task) error { y++; return nil }, deps.Commutative(&y))
					return nil
				}, access, deps.Commutative(&y))
				for range 5 {
					t.Spawn(func(*Task) error { x++; return nil }, deps.Commutative(&x))
				}
				return nil
			}
			if name == "inout" { // ordered among its siblings only
				require.NoError(t, rt.Run(bg, main))
				require.Equal(t, []int{190, 20}, []int{x, y})
				return
			}
			other := rt.Spawn(bg, main)
			require.NoError(t, rt.Run(bg, main))
			require.NoError(t, other.Wait(bg))
			require.Equal(t, []int{380, 40}, []int{x, y})
		})
	}
}

// Priorities choose among the tasks that hold their objects.
func TestCommutativePriority(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var x, y int
	var order []string
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		note := func(s string) func(*Task) error {
			return func(*Task) error { order = append(order, s); return nil }
		}
		t.SpawnWith(Attrs{Priority: -1}, note("low"), deps.Commutative(&x))
		t.SpawnWith(Attrs{Priority: 5}, note("after low"), deps.Commutative(&x))
		t.SpawnWith(Attrs{Priority: 1}, note("high"), deps.Commutative(&y))
		t.Spawn(note("plain"))
		return nil
	}))
	require.Equal(t, []string{"high", "plain", "low", "after low"}, order)
}

// Debug mode accepts tasks that exclude each other, and the children of tasks that hold the object.
func TestCommutativeDebug(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 4, Debug: true})
	var x, y int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 50 {
			t.Spawn(func(t *Task) error {
				for range 3 {
					t.Spawn(func(t *Task) error { x++; return nil }, deps.Commutative(&x))
				}
				return nil
			}, deps.Commutative(&x).Weak())
			t.Spawn(func(t *Task) error {
				x++
				t.Spawn(func(t *Task) error { x++; return nil }, deps.InOut(&x))
				t.Spawn(func(t *Task) error { y += min(x, 1); return nil }, deps.In(&x), deps.Commutative(&y))
				return nil
			}, deps.Commutative(&x), deps.Commutative(&y).Weak())
		}
		return nil
	}))
	require.Equal(t, []int{250, 50}, []int{x, y})
}

// BenchmarkCommutative measures a task, spawned and run on one slot: with one InOut, with one or
// three Commutative accesses without contention, and with one that all tasks share.
func BenchmarkCommutative(b *testing.B) {
	var objs [256]int
	cases := map[string]func(i int) []deps.Access{
		"inout":       func(i int) []deps.Access { return []deps.Access{deps.InOut(&objs[i%256])} },
		"commutative": func(i int) []deps.Access { return []deps.Access{deps.Commutative(&objs[i%256])} },
		"three": func(i int) []deps.Access {
			return []deps.Access{deps.Commutative(&objs[i%256]), deps.Commutative(&objs[(i+1)%256]), deps.Commutative(&objs[(i+2)%256])}
		},
		"contended": func(i int) []deps.Access { return []deps.Access{deps.Commutative(&objs[0])} },
	}
	for name, accs := range cases {
		b.Run(name, func(b *testing.B) {
			rt := openTest(b, Config{Workers: 1})
			defer func() { require.NoError(b, rt.Close()) }()
			b.ReportAllocs()
			sum := 0
			require.NoError(b, rt.Run(bg, func(t *Task) error {
				for i := range b.N {
					t.Spawn(func(*Task) error { sum++; return nil }, accs(i)...)
				}
				return nil
			}))
			require.Equal(b, b.N, sum)
		})
	}
}
