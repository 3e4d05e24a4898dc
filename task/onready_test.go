// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// ONR-01: accesses, then OnReady, then the body; deferred, undeferred and included, ready or not.
func TestONR01_OnReadyOrder(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			for _, a := range []Attrs{{}, {Undeferred: true}, {Priority: 2}, {Priority: -2}, {Wait: true, Final: true, Label: "x"}} {
				for _, final := range []bool{false, true} {
					x := 0
					var n notes
					step := func(want, then int) {
						n.check(x == want, "%+v: x is %d; want %d", a, x, want)
						x = then
					}
					a.OnReady = func(c *Task) error {
						n.check(c.Label() == a.Label && c.Runtime() == rt && c.Context() != nil, "the hook's task")
						step(1, 2)
						return nil
					}
					require.NoError(t, rt.Run(bg, func(t *Task) error {
						t.SpawnWith(Attrs{Final: final}, func(t *Task) error {
							t.Spawn(func(*Task) error { step(0, 1); return nil }, deps.Out(&x))
							t.SpawnWith(a, func(*Task) error { step(2, 3); return nil }, deps.InOut(&x))
							t.Spawn(func(*Task) error { step(3, 4); return nil }, deps.InOut(&x))
							return t.Wait()
						}, deps.InOut(&x))
						return nil
					}))
					n.require(t)
					require.Equal(t, 4, x)
				}
			}
		}
	}
}

// ONR-02: a thousand tasks with events before and after the body.
func TestONR02_OnReadyEventsHammer(t *testing.T) {
	tasks := 1000
	if underRace || testing.Short() {
		tasks = 300
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 64})
		f := newFulfiller(uint64(workers))
		var n notes
		var over atomic.Int32
		objs := make([]int32, 16)
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range tasks {
				var before, after atomic.Int32
				obj := &objs[i%len(objs)]
				t.SpawnWith(Attrs{Undeferred: i%7 == 0, Wait: i%5 == 0, Priority: i%3 - 1, OnReady: func(t *Task) error {
					n.check(*obj%4 == 0, "OnReady of %d before its predecessor is over: %d", i, *obj)
					*obj++
					for range i % 3 {
						end := t.Hold()
						f.c <- func(err error) { before.Add(1); end(err) }
					}
					return nil
				}}, func(t *Task) error {
					n.check(int(before.Load()) == i%3, "the body of %d starts after %d of %d events", i, before.Load(), i%3)
					n.check(t.holds.Load() == 0, "the counter is not armed anew")
					*obj++
					for range i % 2 {
						end := t.Hold()
						f.c <- func(err error) { after.Add(1); end(err) }
					}
					t.Spawn(func(*Task) error { *obj++; return nil }, deps.InOut(obj))
					return nil
				}, deps.InOut(obj))
				t.Spawn(func(*Task) error {
					n.check(*obj%4 == 3 && int(after.Load()) == i%2, "the successor of %d runs early: %d", i, *obj)
					*obj++
					over.Add(1)
					return nil
				}, deps.InOut(obj))
			}
			return nil
		}))
		f.close()
		n.require(t)
		require.EqualValues(t, tasks, over.Load())
	}
}

// In OnReady, methods that wait or spawn are refused: those of its own task, and those of the
// creator on whose stack it runs. The task goes on.
func TestOnReadyMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	for _, undeferred := range []bool{false, true} {
		var texts []string
		ran := false
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.SpawnWith(Attrs{Undeferred: undeferred, OnReady: func(c *Task) error {
				var m Mutex
				for _, f := range []func(){
					func() { c.Spawn(func(*Task) error { return nil }) },
					func() { c.Wait() },
					func() { c.WaitOn() },
					func() { c.Block() },
					func() { c.Blocking(func() {}) },
					func() { c.Sleep(1) },
					func() { m.Lock(c) },
					func() { c.Loop(0, 1, func(*Task, int, int) error { return nil }) },
					func() { t.Spawn(func(*Task) error { return nil }) },
					func() { t.Wait() },
					func() { rt.Run(bg, func(*Task) error { return nil }) },
					func() { rt.Close() },
					func() { rt.Spawn(bg, func(*Task) error { return nil }).Wait(bg) },
				} {
					texts = append(texts, panicOf(f))
				}
				return nil
			}}, func(*Task) error { ran = true; return nil })
			return t.Wait()
		}))
		require.True(t, ran)
		require.Len(t, texts, 13)
		for _, s := range texts {
			require.True(t, strings.HasPrefix(s, "task: "), "%q", s)
		}
	}
}

// Errors, panics, Goexit and the end of the run, in OnReady and while the start is delayed: the
// events are waited for, the body does not run, the creator of an undeferred task goes on.
func TestOnReadyEnds(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, how := range []string{"error", "panic", "goexit", "event", "cancel in OnReady", "cancel later"} {
			for _, events := range []int{0, 1, 3} {
				for _, undeferred := range []bool{false, true} {
					for _, after := range []bool{false, true} { // not ready at once
						if events == 0 && (how == "event" || how == "cancel later") {
							continue
						}
						name := strings.Join([]string{how, map[bool]string{true: "undeferred"}[undeferred], map[bool]string{true: "after"}[after]}, " ")
						ctx, cancel := context.WithCancelCause(bg)
						var wg sync.WaitGroup
						var ended atomic.Int32
						var body, calls int
						creator := false
						x := 0
						err := rt.Run(ctx, func(t *Task) error {
							if after {
								t.Spawn(func(t *Task) error {
									end := t.Hold()
									wg.Go(func() { end(nil) })
									return nil
								}, deps.Out(&x))
							}
							t.SpawnWith(Attrs{Label: "subject", Undeferred: undeferred, OnReady: func(t *Task) error {
								calls++
								called := make(chan struct{})
								defer close(called)
								for i := range events {
									end := t.Hold()
									wg.Go(func() {
										<-called
										if i == 0 {
											until(func() bool { return t.holds.Load() >= startHeld })
											switch how {
											case "event":
												ended.Add(1)
												end(errEvent)
												return
											case "cancel later":
												cancel(errCancel)
												until(t.run.stopped.Load)
											}
										}
										ended.Add(1)
										end(nil)
									})
								}
								switch how {
								case "error":
									return errBody
								case "panic":
									panic(errBody)
								case "goexit":
									runtime.Goexit()
								case "cancel in OnReady":
									cancel(errCancel)
									until(t.run.stopped.Load) // an AfterFunc of ctx does it
								}
								return nil
							}}, func(*Task) error { body++; return nil }, deps.InOut(&x))
							creator = true
							return nil
						})
						wg.Wait()
						cancel(nil)
						require.Equal(t, 0, body, name)
						require.Equal(t, 1, calls, name)
						require.EqualValues(t, events, ended.Load(), name)
						if !undeferred || how != "goexit" {
							// else it ends the creator too, if OnReady runs on the creator's stack
							require.True(t, creator, name)
						} else if !after {
							require.False(t, creator, name)
						}
						want := map[string]error{"error": errBody, "panic": errBody, "goexit": errGoexit, "event": errEvent}[how]
						if want == nil {
							require.Equal(t, errCancel, err, name)
							continue
						}
						var e *Error
						require.ErrorIs(t, err, want, name)
						require.ErrorAs(t, err, &e, name)
						require.Equal(t, "subject", e.Label)
						require.Equal(t, how == "panic", e.Stack != nil)
						require.Contains(t, e.Site, "onready_test.go:")
					}
				}
			}
		}
	}
}

// OnReady of a task that is skipped is not called.
func TestOnReadyOfSkippedTask(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		x, called := 0, false
		err := rt.Run(bg, func(t *Task) error {
			t.Spawn(func(*Task) error { return errBody }, deps.Out(&x))
			for _, u := range []bool{false, true} {
				t.SpawnWith(Attrs{Undeferred: u, OnReady: func(*Task) error { called = true; return nil }},
					func(*Task) error { return nil }, deps.In(&x))
			}
			return nil
		})
		require.ErrorIs(t, err, errBody)
		require.False(t, called)
	}
}

// A task whose start is delayed keeps no slot, is not counted by the throttle, and may depend on
// what the creator spawns later.
func TestOnReadyKeepsNoSlot(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 4})
		const n = 300
		var mu sync.Mutex
		var ends []func(error)
		var started atomic.Int32
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range n {
				t.SpawnWith(Attrs{OnReady: func(t *Task) error {
					mu.Lock()
					defer mu.Unlock()
					ends = append(ends, t.Hold())
					return nil
				}}, func(*Task) error { started.Add(1); return nil })
			}
			t.Blocking(func() { until(func() bool { mu.Lock(); defer mu.Unlock(); return len(ends) == n }) })
			if started.Load() != 0 {
				return errors.New("a body started")
			}
			t.Spawn(func(*Task) error {
				for _, end := range slices.Backward(ends) {
					end(nil)
				}
				return nil
			})
			return nil
		}))
		require.EqualValues(t, n, started.Load())
	}
}

// Wait runs no task with an OnReady on top of its body, but it waits for such a task, also if there
// is no other.
func TestOnReadyUnderWait(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var rec func(t *Task, n int, out *int) error
		rec = func(t *Task, n int, out *int) error {
			if n < 2 {
				*out = n
				return nil
			}
			var a, b int
			t.SpawnWith(Attrs{OnReady: func(t *Task) error { end := t.Hold(); go end(nil); return nil }},
				func(t *Task) error { return rec(t, n-1, &a) })
			t.SpawnWith(Attrs{OnReady: func(t *Task) error { t.Hold()(nil); return nil }},
				func(t *Task) error { return rec(t, n-2, &b) })
			err := t.Wait()
			*out = a + b
			return err
		}
		var out int
		require.NoError(t, rt.Run(bg, func(t *Task) error { return rec(t, 12, &out) }))
		require.Equal(t, 144, out)
	}
}
