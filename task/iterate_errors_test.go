// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// A loop ends early, and at once, when the run has failed: by a body, an event, a panic, Goexit,
// OnReady, the condition or the recording, or when it is cancelled. It does so however many rounds
// its tasks are apart by then.
func TestIterFailures(t *testing.T) {
	boom := errors.New("boom")
	const n = 1 << 40 // would not end
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, how := range []string{"error", "panic", "goexit", "event", "onready", "cancel", "condition", "condition panics", "record", "record panics", "blocked"} {
			for _, form := range []string{"counted", "while"} {
				for _, at := range []int{0, 1, 500} {
					what := fmt.Sprint(how, ", ", form, ", at ", at, ", workers ", workers)
					ctx, cancel := context.WithCancelCause(bg)
					var o [8]int
					fail := func(t *Task) error {
						if t.Iteration() != at {
							return nil
						}
						switch how {
						case "error", "onready":
							return boom
						case "panic":
							panic(boom)
						case "goexit":
							runtime.Goexit()
						case "event":
							end := t.Hold()
							go end(boom)
						case "cancel":
							cancel(boom)
						case "blocked":
							go cancel(boom)
							return t.Block()
						}
						return nil
					}
					a := IterAttrs{Iterations: n, Attrs: Attrs{Label: "loop"}}
					if form == "while" || strings.HasPrefix(how, "condition") {
						a.While = func(t *Task) (bool, error) {
							switch {
							case t.Iteration() != at:
							case how == "condition":
								return true, boom
							case how == "condition panics":
								panic(boom)
							}
							return true, nil
						}
					}
					after := false
					err := rt.Run(ctx, func(t *Task) error {
						t.IterateWith(a, func(it *Iteration) error {
							switch how {
							case "record":
								return boom
							case "record panics":
								it.Spawn(func(*Task) error { return nil })
								panic(boom)
							}
							for i := range o {
								at := Attrs{}
								if how == "onready" && i == 3 {
									at.OnReady = fail
								}
								it.SpawnWith(at, func(t *Task) error {
									if i == 3 && how != "onready" {
										return fail(t)
									}
									return nil
								}, deps.InOut(&o[i]), deps.In(&o[max(i-1, 0)]))
							}
							// always rounds before the others
							it.Spawn(func(*Task) error { return nil })
							it.Spawn(func(t *Task) error { t.Spawn(func(*Task) error { return nil }); return nil })
							return nil
						}, deps.InOut(&o[0]))
						t.Spawn(func(*Task) error { after = true; return nil }, deps.In(&o[0]))
						return nil
					})
					if how == "goexit" {
						require.ErrorContains(t, err, "Goexit", what)
					} else {
						require.ErrorIs(t, err, boom, what)
					}
					require.False(t, after, what)
					var e *Error
					if strings.HasPrefix(how, "condition") {
						require.ErrorAs(t, err, &e, what)
						require.Equal(t, "loop", e.Label)
						require.Contains(t, e.Site, "iterate_errors_test.go")
					}
					cancel(nil)
				}
			}
		}
	}
}

func TestIterMisuse(t *testing.T) {
	// One slot: all bodies run on one goroutine, so that a call on another body's task is no race.
	rt := newTestRuntime(t, Config{Workers: 1})
	var x, y int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		var n notes
		one := func(it *Iteration) error { it.Spawn(func(*Task) error { return nil }); return nil }
		n.check(contains(panicOf(func() { t.Iterate(1, nil) }), "records the loop is nil"), "nil")
		n.check(contains(panicOf(func() { t.IterateWith(IterAttrs{Iterations: 1, Unroll: -2}, one) }), "Unroll is -2"), "unroll")
		var old *Iteration
		t.Iterate(2, func(it *Iteration) error {
			old = it
			n.check(contains(panicOf(func() { it.Spawn(nil) }), "the body is nil"), "nil body")
			n.check(contains(panicOf(func() { it.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { return nil }) }), "Undeferred"), "undeferred")
			n.check(contains(panicOf(func() { t.Spawn(func(*Task) error { return nil }) }), "Spawn"), "the creator spawns")
			it.Spawn(func(c *Task) error {
				n.check(contains(panicOf(func() { old.Spawn(func(*Task) error { return nil }) }), "recording is over"), "late")
				n.check(contains(c.Release(deps.In(&x)).Error(), "has declared InOut"), "Release in another mode")
				n.check(contains(c.Release(deps.In(&y)).Error(), "not declared"), "Release of another object")
				n.check(c.Release(deps.InOut(&x)) == nil, "Release")
				n.check(contains(c.Release(deps.InOut(&x)).Error(), "given it up before"), "second Release")
				n.check(contains(panicOf(func() { c.Spawn(func(*Task) error { return nil }, deps.In(&x)) }), "given up by Release"), "child")
				c.Spawn(func(*Task) error { return nil }, deps.In(&y))
				return nil
			}, deps.InOut(&x))
			return nil
		}, deps.InOut(&x))
		err := t.Wait()
		n.check(panicOf(func() { old.SpawnWith(Attrs{}, func(*Task) error { return nil }) }) != "", "after the end")
		if len(n.bad) > 0 {
			return errors.New(strings.Join(n.bad, "; "))
		}
		return err
	}))
}

// A recorded body may find that the recording is over while the loop's own body still ends.
func TestIterSpawnAfterRecordingHammer(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 300 {
		var over atomic.Int32
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Iterate(2, func(it *Iteration) error {
				it.Spawn(func(*Task) error {
					if contains(panicOf(func() { it.Spawn(func(*Task) error { return nil }) }), "recording is over") {
						over.Add(1)
					}
					return nil
				})
				return nil
			})
			return t.Wait()
		}))
		require.EqualValues(t, 2, over.Load())
	}
}

// An Unblock that comes too late does not reach the next iteration.
func TestIterLateUnblock(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var x int
	var old *Task
	var early atomic.Int32
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(100, func(it *Iteration) error {
			it.Spawn(func(t *Task) error {
				if old != nil {
					old.Unblock()
				}
				old = t
				var answered atomic.Bool
				go func() { answered.Store(true); t.Unblock() }()
				err := t.Block()
				if !answered.Load() {
					early.Add(1)
				}
				return err
			}, deps.InOut(&x))
			return nil
		}, deps.InOut(&x))
		return nil
	}))
	require.Zero(t, early.Load())
}

// A replayed iteration allocates nothing: thousands allocate no more than a few.
func TestIterAllocates(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	rt := newTestRuntime(t, Config{Workers: 1})
	var o [32]int
	body := func(t *Task) error {
		if t.Iteration()%7 == 0 {
			return t.Release(deps.InOut(&o[0]))
		}
		return nil
	}
	plain := func(*Task) error { return nil }
	loop := func(n int) float64 {
		return testing.AllocsPerRun(5, func() {
			err := rt.Run(bg, func(t *Task) error {
				t.Iterate(n, func(it *Iteration) error {
					it.Spawn(body, deps.InOut(&o[0]))
					for i := 1; i < len(o); i++ {
						it.Spawn(plain, deps.InOut(&o[i]), deps.In(&o[i-1]))
					}
					return nil
				})
				return nil
			})
			if err != nil {
				panic(err)
			}
		})
	}
	loop(10)
	few, many := loop(10), loop(2000)
	require.InDelta(t, few, many, 100, "10 and 2000 iterations of %d tasks", len(o))
}

// 100,000 tasks are recorded and replayed.
func TestIterManyTasks(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	n := 100_000
	if underRace {
		n = 10_000
	}
	v := make([]int, n)
	var sum int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(3, func(it *Iteration) error {
			for i := range v {
				it.Spawn(func(*Task) error { v[i] += v[max(i-1, 0)] + 1; return nil }, deps.InOut(&v[i]), deps.In(&v[max(i-1, 0)]))
			}
			all := make([]deps.Access, 0, n+1)
			for i := range v {
				all = append(all, deps.In(&v[i]))
			}
			it.Spawn(func(*Task) error {
				for _, x := range v {
					sum += x
				}
				return nil
			}, append(all, deps.InOut(&sum))...)
			return nil
		})
		return nil
	}))
	want, total := make([]int, n), 0
	for range 3 {
		for i := range want {
			want[i] += want[max(i-1, 0)] + 1
		}
		for _, x := range want {
			total += x
		}
	}
	require.Equal(t, want, v)
	require.Equal(t, total, sum)
}

// Debug mode knows what recorded tasks declare, in each iteration.
func TestIterDebugMode(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), nil))
	rt := newTestRuntime(t, Config{Workers: 3, Debug: true, Logger: logger})
	var x, y int
	loop := func(body func(t *Task) error, accs ...deps.Access) error {
		return rt.Run(bg, func(t *Task) error {
			t.Iterate(20, func(it *Iteration) error {
				it.Spawn(body, accs...)
				it.Spawn(func(t *Task) error { t.Uses(deps.In(&x)); return nil }, deps.In(&x))
				return nil
			}, deps.InOut(&x), deps.InOut(&y))
			t.Spawn(func(*Task) error { x++; return nil }, deps.InOut(&x), deps.InOut(&y))
			return nil
		})
	}
	require.NoError(t, loop(func(t *Task) error {
		t.Uses(deps.InOut(&x))
		t.Spawn(func(t *Task) error { t.Uses(deps.InOut(&x)); x++; return nil }, deps.InOut(&x))
		return nil
	}, deps.InOut(&x)))
	require.Equal(t, 21, x)
	require.Empty(t, log.String())

	require.ErrorContains(t, loop(func(t *Task) error { t.Uses(deps.In(&y)); return nil }, deps.InOut(&x)), "declared no access")
	require.ErrorContains(t, loop(func(t *Task) error {
		if t.Iteration() < 7 {
			return nil
		}
		if err := t.Release(deps.InOut(&x)); err != nil {
			return err
		}
		t.Uses(deps.In(&x))
		return nil
	}, deps.InOut(&x)), "given the object up")
	// The child of a recorded task must not use what its parent does not declare: children of other
	// tasks may use it at the same time.
	err := rt.Run(bg, func(t *Task) error {
		t.Iterate(1, func(it *Iteration) error {
			for range 2 {
				it.Spawn(func(t *Task) error {
					t.Spawn(func(t *Task) error {
						t.Blocking(func() { <-t.Context().Done() })
						return nil
					}, deps.InOut(&y))
					return nil
				})
			}
			return nil
		}, deps.InOut(&y))
		return nil
	})
	require.ErrorIs(t, err, ErrConflict)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
