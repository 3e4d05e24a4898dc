// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task/internal/pool"
	"weft/task/internal/sched"
)

// The descendants of a final task run at once, on its goroutine, in the order of the program; tasks
// outside are not affected.
func TestFinalRunsInOrder(t *testing.T) {
	skipInLintMode(t, "bodies have goroutines of their own there, as have OnReady's")
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var log, want []int
		var build func(depth int) // the sequential program
		build = func(depth int) {
			want = append(want, depth)
			if depth < 4 {
				for range 3 {
					build(depth + 1)
				}
			}
			want = append(want, -depth)
		}
		build(0)
		var n notes
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			n.check(!t.InFinal(), "the main task is final")
			x := 0
			t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
				g := sched.Goid()
				var rec func(t *Task, depth int) error
				rec = func(t *Task, depth int) error {
					n.check(t.InFinal(), "a descendant is not final")
					n.check(sched.Goid() == g, "a descendant runs elsewhere")
					log = append(log, depth)
					if depth < 4 {
						t.Spawn(func(t *Task) error { return rec(t, depth+1) })
						t.Spawn(func(t *Task) error { return rec(t, depth+1) }, deps.InOut(&x))
						t.SpawnWith(Attrs{Priority: 3, Wait: true}, func(t *Task) error { return rec(t, depth+1) }, deps.InOut(&x).Weak())
					}
					log = append(log, -depth)
					return nil
				}
				return rec(t, 0)
			}, deps.InOut(&x))
			for range 100 {
				t.Spawn(func(t *Task) error { n.check(!t.InFinal(), "a sibling is final"); return nil })
			}
			return nil
		}))
		n.require(t)
		require.True(t, slices.Equal(want, log), "%v", log)
	}
}

// An included task whose access is held by an event of an earlier task waits without the slot.
func TestFinalWaitsForEvents(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			var n notes
			var ended atomic.Bool
			x := 0
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
					var end func(error)
					t.Spawn(func(t *Task) error { end = t.Hold(); return nil }, deps.InOut(&x))
					go func() { ended.Store(true); end(nil) }()
					ran := false
					t.Spawn(func(t *Task) error {
						n.check(ended.Load(), "too early")
						ran = true
						return nil
					}, deps.In(&x))
					n.check(ran, "not at once")
					return nil
				}, deps.InOut(&x))
				return nil
			}))
			n.require(t)
		}
	}
}

// Errors, panics and a cancelled run in included tasks: later tasks do not run, and the body goes
// on.
func TestFinalErrors(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for _, how := range []string{"error", "panic", "goexit", "cancel"} {
		later, goes := false, false
		err := rt.Run(bg, func(t *Task) error {
			t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
				t.SpawnWith(Attrs{Label: "bad"}, func(t *Task) error {
					switch how {
					case "error":
						return errBody
					case "panic":
						panic(errBody)
					case "goexit":
						runtime.Goexit()
					default:
						t.run.fail(errCancel)
					}
					return nil
				})
				t.Spawn(func(*Task) error { later = true; return nil })
				goes = true
				return nil
			})
			return nil
		})
		require.False(t, later, how)
		require.Equal(t, how != "goexit", goes, how) // Goexit ends the bodies beneath, too
		switch how {
		case "cancel":
			require.Equal(t, errCancel, err)
		case "goexit":
			require.ErrorIs(t, err, errGoexit)
		default:
			require.ErrorIs(t, err, errBody)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "bad", e.Label)
		}
	}
}

// Whether and where a recursion is final does not change what it computes.
func TestFinalFib(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var rec func(t *Task, n, cut int, out *int) error
		rec = func(t *Task, n, cut int, out *int) error {
			if n < 2 {
				*out = n
				return nil
			}
			var a, b int
			t.SpawnWith(Attrs{Final: n-1 <= cut}, func(t *Task) error { return rec(t, n-1, cut, &a) })
			t.Spawn(func(t *Task) error { return rec(t, n-2, cut, &b) })
			err := t.Wait()
			*out = a + b
			return err
		}
		for cut := range 14 {
			var out int
			require.NoError(t, rt.Run(bg, func(t *Task) error { return rec(t, 14, cut, &out) }))
			require.Equal(t, 377, out, "cut %d", cut)
		}
	}
}

// Included and undeferred tasks cost no allocation but the closure.
func TestFinalAllocatesOnlyTheClosure(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	rt := newTestRuntime(t, Config{Workers: 1})
	const n = 100_000
	var before, after runtime.MemStats
	x := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
			spawn := func(n int) {
				for range n {
					t.Spawn(func(*Task) error { x++; return nil }, deps.InOut(&x))
				}
			}
			spawn(3 * pool.Batch)
			runtime.ReadMemStats(&before)
			spawn(n)
			runtime.ReadMemStats(&after)
			return nil
		})
		return nil
	}))
	require.Equal(t, 3*pool.Batch+n, x)
	require.LessOrEqual(t, float64(after.Mallocs-before.Mallocs)/n, 1.01)
}

// The rare attributes are not inherited, neither from the parent nor from the last task in the
// memory.
func TestRareAttributesAreNotInherited(t *testing.T) {
	skipInLintMode(t, "it is about what is there without debug mode, which lint mode includes")
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		var m Mutex
		calls := 0
		for range 2 * pool.Batch {
			t.SpawnWith(Attrs{Cost: 7, Final: true}, func(c *Task) error {
				if c.Cost() != 7 || !c.InFinal() {
					return errors.New("attributes are lost")
				}
				if err := m.Lock(c); err != nil {
					return err
				}
				defer m.Unlock(c)
				c.Spawn(func(c *Task) error {
					if c.Cost() != 0 {
						return errors.New("the cost is inherited")
					}
					return nil
				})
				return nil
			})
			t.SpawnWith(Attrs{OnReady: func(*Task) error { calls++; return nil }}, func(c *Task) error { return nil })
		}
		if err := t.Wait(); err != nil || calls != 2*pool.Batch {
			return fmt.Errorf("%w; OnReady called %d times", err, calls)
		}
		for range 4 * pool.Batch {
			t.Spawn(func(c *Task) error {
				if c.Cost() != 0 || c.InFinal() || c.node.Flags != flagLeaf || c.und != nil || c.more != nil && (c.more.onReady != nil || c.more.held != nil) {
					return errors.New("inherited with the memory")
				}
				return nil
			})
		}
		return t.Wait()
	}))
}
