// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/env"
	"weft/internal/leaktest"
)

// throttleSlack is by how much the live children of one task may exceed Config.Window while a slot
// has work: the creator checks the throttle once per throttleEvery children.
const throttleSlack = throttleEvery

// The throttle bounds the live tasks: a creator that is faster than its children waits. With the
// chain the slots never all park, so the bound holds without exception.
func TestADD01_ThrottleBoundsLiveTasks(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		for _, window := range []int{2, 16, 100, 1000} {
			for _, chain := range []bool{true, false} {
				rt := newTestRuntime(t, Config{Workers: workers, Window: window})
				const n = 20000
				var over atomic.Int64
				most := int64(0)
				x := 0
				require.NoError(t, rt.Run(bg, func(t *Task) error {
					for i := range int64(n) {
						body := func(*Task) error { over.Add(1); return nil }
						if chain {
							t.Spawn(body, deps.InOut(&x))
						} else {
							t.Spawn(body)
						}
						most = max(most, i+1-over.Load())
					}
					return nil
				}))
				require.EqualValues(t, n, over.Load())
				require.LessOrEqual(t, most, int64(window+throttleSlack), "workers %d, window %d, chain %v", workers, window, chain)
			}
		}
	}
}

// Without the throttle the creator never waits.
func TestNoThrottle(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1, Window: -1})
	ran := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 3 * env.DefaultWindow {
			t.Spawn(func(*Task) error { ran++; return nil })
		}
		if ran != 0 {
			return fmt.Errorf("%d children ran before the creator's end", ran)
		}
		return nil
	}))
	require.Equal(t, 3*env.DefaultWindow, ran)
}

// The memory of a long chain is bounded by the throttle, not by its length.
func TestADD01_ThrottleBoundsMemory(t *testing.T) {
	n := 2_000_000
	if underRace || testing.Short() {
		n = 100_000
	}
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		most := uint64(0)
		x := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range n {
				t.Spawn(func(*Task) error { x++; return nil }, deps.InOut(&x))
				if i%(n/4) == n/8 {
					runtime.GC()
					runtime.ReadMemStats(&after)
					most = max(most, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
				}
			}
			return nil
		}))
		require.Equal(t, n, x)
		// A live task and its closure take less than a kilobyte; the free ones are as many again.
		require.Less(t, most, uint64(4*(env.DefaultWindow+throttleSlack)<<10))
	}
}

// Programs that the throttle could hold up, with the smallest Config.Window and larger ones.
func TestThrottleNeverDeadlocks(t *testing.T) {
	programs := map[string]func(n int) func(*Task) error{
		// The last task, spawned more than Config.Window tasks later, ends the first task's event.
		"event ended by a later task": func(n int) func(*Task) error {
			return func(t *Task) error {
				x := 0
				event := make(chan func(error), 1)
				t.Spawn(func(t *Task) error { event <- t.Hold(); return nil }, deps.InOut(&x))
				for range n {
					t.Spawn(func(*Task) error { return nil }, deps.In(&x)) // all wait for it
				}
				t.Spawn(func(t *Task) error {
					var e func(error)
					t.Blocking(func() { e = <-event })
					e(nil)
					return nil
				})
				return nil
			}
		},
		"blocked until a later task": func(n int) func(*Task) error {
			return func(t *Task) error {
				x := 0
				first := make(chan *Task, 1)
				t.Spawn(func(t *Task) error { first <- t; return t.Block() }, deps.InOut(&x))
				for range n {
					t.Spawn(func(*Task) error { return nil }, deps.InOut(&x))
				}
				t.Spawn(func(t *Task) error {
					var f *Task
					t.Blocking(func() { f = <-first })
					f.Unblock()
					return nil
				})
				return nil
			}
		},
		"all blocked until the creator's end": func(n int) func(*Task) error {
			return func(t *Task) error {
				all := make(chan *Task, n)
				for range n {
					t.Spawn(func(t *Task) error { all <- t; return t.Block() })
				}
				for range n {
					var c *Task
					t.Blocking(func() { c = <-all })
					c.Unblock()
				}
				return nil
			}
		},
		"Blocking until the creator's end": func(n int) func(*Task) error {
			return func(t *Task) error {
				end := make(chan int)
				for range n {
					t.Spawn(func(t *Task) error { t.Blocking(func() { <-end }); return nil })
				}
				close(end)
				return nil
			}
		},
		"nested creators": func(n int) func(*Task) error {
			return func(t *Task) error {
				for range 5 {
					t.Spawn(func(t *Task) error {
						for range 5 {
							t.Spawn(func(t *Task) error {
								for range n / 5 {
									t.Spawn(func(*Task) error { return nil })
								}
								return t.Wait()
							})
						}
						for range n / 5 {
							t.Spawn(func(*Task) error { return nil })
						}
						return nil
					})
				}
				return nil
			}
		},
		// Two throttled creators, each of which needs a task that the other has not spawned yet.
		"creators that need each other": func(n int) func(*Task) error {
			return func(t *Task) error {
				a, b := make(chan func(error), 1), make(chan func(error), 1)
				for _, c := range [][2]chan func(error){{a, b}, {b, a}} {
					t.Spawn(func(t *Task) error {
						x := 0
						t.Spawn(func(t *Task) error { c[0] <- t.Hold(); return nil }, deps.InOut(&x))
						for range n {
							t.Spawn(func(*Task) error { return nil }, deps.InOut(&x))
						}
						t.Spawn(func(t *Task) error {
							var e func(error)
							t.Blocking(func() { e = <-c[1] })
							e(nil)
							return nil
						})
						return nil
					})
				}
				return nil
			}
		},
		"undeferred in between": func(n int) func(*Task) error {
			return func(t *Task) error {
				x := 0
				for i := range n {
					t.SpawnWith(Attrs{Undeferred: i%70 == 0, Priority: i%3 - 1}, func(*Task) error { x++; return nil }, deps.InOut(&x))
				}
				return nil
			}
		},
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			for _, workers := range []int{1, 2, 3} {
				for _, window := range []int{2, 16, 65} {
					rt := newTestRuntime(t, Config{Workers: workers, Window: window})
					// Three checks of the throttle, each of which may have to wait for the backoff
					// timer.
					require.NoError(t, rt.Run(bg, program(3*throttleEvery+8)), "workers %d, window %d", workers, window)
				}
			}
		})
	}
}

// All throttled creators go on, however many there are: when no slot has anything to do, and when
// what their children wait for comes.
func TestManyCreatorsWait(t *testing.T) {
	for _, creators := range []int{1, 7, 8, 9, 16, 17, 30} {
		rt := newTestRuntime(t, Config{Workers: 2, Window: 4})
		var x int
		var made, ran, resumed atomic.Int64
		var stop atomic.Bool
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			var end func(error)
			begun := make(chan struct{})
			t.Spawn(func(t *Task) error { end = t.Hold(); close(begun); return nil }, deps.Out(&x))
			for range creators {
				t.Spawn(func(t *Task) error {
					for i := 0; !stop.Load(); i++ {
						t.Spawn(func(*Task) error { ran.Add(1); return nil }, deps.In(&x))
						made.Add(1)
						if i == throttleEvery {
							resumed.Add(1)
						}
					}
					return nil
				}, deps.In(&x).Weak())
			}
			t.Blocking(func() {
				<-begun
				until(func() bool { return int(resumed.Load()) == creators && int(rt.throttle.n.Load()) == creators })
			})
			stop.Store(true)
			end(nil)
			return t.Wait()
		}))
		require.Equal(t, made.Load(), ran.Load())
		require.Zero(t, rt.throttle.n.Load())
		require.Empty(t, rt.throttle.list)
	}
}

// A throttled creator goes on when the run ends early, and then skips the rest.
func TestThrottleAndFailure(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2, Window: 2})
	for range 20 {
		made := 0
		err := rt.Run(bg, func(t *Task) error {
			x := 0
			for i := range 1000 {
				t.Spawn(func(*Task) error {
					if i == 300 {
						return errBody
					}
					return nil
				}, deps.InOut(&x))
				made++
			}
			return nil
		})
		require.ErrorIs(t, err, errBody)
		require.Equal(t, 1000, made)
	}
}

// A hundred thousand tasks blocked at once on two slots, at kilobytes each.
func TestHundredThousandBlocked(t *testing.T) {
	n := 100_000
	if underRace || testing.Short() {
		n = 10_000
	}
	if !leaktest.Alone(t) { // stacks that earlier tests have left would be counted
		return
	}
	rt := newTestRuntime(t, Config{Workers: 2})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tasks := make([]*Task, n)
	var in atomic.Int64
	var sum atomic.Int64
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for i := range n {
			t.Spawn(func(t *Task) error {
				tasks[i] = t
				in.Add(1)
				if err := t.Block(); err != nil {
					return err
				}
				sum.Add(int64(i))
				return nil
			})
		}
		t.Blocking(func() {
			until(func() bool { return in.Load() == int64(n) && rt.sched.Parked() == 2 })
			runtime.GC()
			runtime.ReadMemStats(&after)
		})
		// From three sides at once.
		var wg sync.WaitGroup
		for g := range 2 {
			wg.Go(func() {
				for i := g; i < n; i += 3 {
					tasks[i].Unblock()
				}
			})
		}
		for i := 2; i < n; i += 3 {
			tasks[i].Unblock()
		}
		t.Blocking(wg.Wait)
		return t.Wait()
	}))
	require.EqualValues(t, int64(n)*int64(n-1)/2, sum.Load())
	if !underRace {
		each := int64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse) / int64(n)
		t.Logf("%d bytes per blocked task", each)
		require.Less(t, each, int64(8<<10))
	}
}

// At most one allocation per task, which is the closure.
func TestSpawnAllocatesOnlyTheClosure(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	rt := newTestRuntime(t, Config{Workers: 1})
	const n = 200_000
	var before, after runtime.MemStats
	var x, y int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		spawn := func(n int) {
			for range n {
				t.Spawn(func(*Task) error { x++; y++; return nil }, deps.InOut(&x), deps.In(&y), deps.InOut(&y))
			}
			t.Wait()
		}
		spawn(3 * env.DefaultWindow) // the memory that is used again and again
		runtime.ReadMemStats(&before)
		spawn(n)
		runtime.ReadMemStats(&after)
		return nil
	}))
	require.LessOrEqual(t, float64(after.Mallocs-before.Mallocs)/n, 1.01)
}
