// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task/internal/pool"
	"weft/task/internal/sched"
)

// IF-01: an undeferred task runs inline when it is ready, stops its creator when it is not, and its
// creator does not wait for its children.
func TestIF01_Undeferred(t *testing.T) {
	skipInLintMode(t, "bodies have goroutines of their own there, as have OnReady's")
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})

		// Ready: on the creator's goroutine, at once.
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			g, ran := sched.Goid(), false
			t.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { ran = sched.Goid() == g; return nil })
			if !ran {
				return errors.New("did not run inline")
			}
			return nil
		}))

		// Not ready: after the predecessor, its event included, and before the creator goes on.
		for range 50 {
			var log []string
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				x := 0
				t.Spawn(func(t *Task) error {
					e := t.Hold()
					go func() { log = append(log, "event"); e(nil) }()
					return nil
				}, deps.InOut(&x))
				t.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { log = append(log, "task"); return nil }, deps.In(&x))
				log = append(log, "creator")
				return nil
			}))
			require.Equal(t, []string{"event", "task", "creator"}, log)
		}

		// Its children and events are not waited for.
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			gate := make(chan struct{})
			childOver, eventOver := false, false
			t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error {
				t.Spawn(func(t *Task) error { t.Blocking(func() { <-gate }); childOver = true; return nil })
				e := t.Hold()
				go func() { <-gate; eventOver = true; e(nil) }()
				return nil
			})
			if childOver || eventOver {
				return errors.New("the creator waited for more than the body")
			}
			close(gate) // the creator gets here although neither is over
			return t.Wait()
		}))

		// Nested: every level inline.
		depth := 0
		var nest func(t *Task) error
		nest = func(t *Task) error {
			if depth++; depth < 200 {
				t.SpawnWith(Attrs{Undeferred: true}, nest)
			}
			return nil
		}
		require.NoError(t, rt.Run(bg, nest))
		require.Equal(t, 200, depth)
	}
}

// WaitOn waits for what its accesses need and for nothing else.
func TestADD08_WaitOn(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				var x, y, done int
				gate := make(chan struct{})
				t.Spawn(func(t *Task) error { t.Blocking(func() { <-gate }); return nil }, deps.InOut(&y))
				for range 10 {
					t.Spawn(func(*Task) error { done++; return nil }, deps.InOut(&x))
				}
				// The last task's child does not use x: WaitOn does not wait for it.
				t.Spawn(func(t *Task) error {
					t.Spawn(func(t *Task) error { t.Blocking(func() { <-gate }); return nil })
					done++
					return nil
				}, deps.InOut(&x))
				if err := t.WaitOn(deps.In(&x)); err != nil {
					return err
				}
				n.check(done == 11, "WaitOn(In) returned after %d of 11 tasks", done)
				close(gate)
				return t.Wait()
			}))
			n.require(t)
		}

		// With In it does not wait for readers, with InOut it does. Without accesses it does not
		// wait.
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			x := 0
			gate, over := make(chan struct{}), false
			t.Spawn(func(t *Task) error { t.Blocking(func() { <-gate }); over = true; return nil }, deps.In(&x))
			if err := errors.Join(t.WaitOn(), t.WaitOn(deps.In(&x))); err != nil {
				return err
			}
			close(gate)
			if err := t.WaitOn(deps.InOut(&x)); err != nil {
				return err
			}
			if !over {
				return errors.New("WaitOn(InOut) did not wait for the reader")
			}
			return nil
		}))

		// It returns the error of the run.
		err := rt.Run(bg, func(t *Task) error {
			x := 0
			t.Spawn(func(*Task) error { return errBody }, deps.InOut(&x))
			if err := t.WaitOn(deps.In(&x)); !errors.Is(err, errBody) {
				return fmt.Errorf("WaitOn returned %v", err)
			}
			return nil
		})
		require.ErrorIs(t, err, errBody)
	}
}

// NST-01: recursion with Wait, and Wait at many levels at once.
func TestNST01_NestedWait(t *testing.T) {
	n := 17
	if underRace {
		n = 13
	}
	want := map[int]int{13: 233, 17: 1597}[n]
	for _, workers := range []int{1, 2, 3, 8} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var out int
		require.NoError(t, rt.Run(bg, func(t *Task) error { return fib(t, n, &out) }))
		require.Equal(t, want, out)
	}
}

// Wait is for deep completion: grandchildren and their events, too; and it can be called again.
func TestWaitIsDeep(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for round := range 3 {
					var over atomic.Int32
					for range 5 {
						t.Spawn(func(t *Task) error {
							t.Spawn(func(t *Task) error {
								e := t.Hold()
								go func() { over.Add(1); e(nil) }()
								t.Spawn(func(*Task) error { over.Add(1); return nil })
								return nil
							})
							return nil
						})
					}
					if err := t.Wait(); err != nil {
						return err
					}
					n.check(over.Load() == 10, "round %d: Wait returned after %d of 10", round, over.Load())
					if err := t.Wait(); err != nil { // nothing to wait for
						return err
					}
				}
				return nil
			}))
			n.require(t)
		}
	}
}

// Deep nests of the wait attribute end from the inside to the outside.
func TestDEP40_WaitDeep(t *testing.T) {
	depth := 10000
	if underRace {
		depth = 1000
	}
	rt := newTestRuntime(t, Config{Workers: 2})
	var x int
	var order []int
	nest := func(t *Task, d int) error {
		t.Spawn(func(*Task) error { order = append(order, d); return nil }, deps.InOut(&x))
		return nil
	}
	var spawn func(t *Task, d int) error
	spawn = func(t *Task, d int) error {
		if d < depth {
			t.SpawnWith(Attrs{Wait: true}, func(t *Task) error { return spawn(t, d+1) }, deps.InOut(&x).Weak())
		}
		return nest(t, d)
	}
	require.NoError(t, rt.Run(bg, func(t *Task) error { return spawn(t, 0) }))
	require.Len(t, order, depth+1)
	require.True(t, slices.IsSortedFunc(order, func(a, b int) int { return b - a }), "the outer level ran before the inner one")
}

// Release in a body lets successors run while the body still runs, and in the order in which
// it was called.
func TestREL01_ReleaseInBody(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		var segs [8]int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			var ran [8]chan struct{}
			for i := range ran {
				ran[i] = make(chan struct{})
			}
			accs := make([]deps.Access, len(segs))
			for i := range segs {
				accs[i] = deps.InOut(&segs[i])
			}
			t.Spawn(func(t *Task) error {
				for _, i := range []int{3, 0, 7, 1, 6, 2, 5, 4} {
					select {
					case <-ran[i]:
						return fmt.Errorf("segment %d went early", i)
					default:
					}
					if err := t.Release(deps.InOut(&segs[i])); err != nil {
						return err
					}
					t.Blocking(func() { <-ran[i] }) // the successor ends before the releaser
				}
				return nil
			}, accs...)
			for i := range segs {
				t.Spawn(func(*Task) error { segs[i]++; close(ran[i]); return nil }, deps.InOut(&segs[i]))
			}
			return nil
		}))
		require.Equal(t, [8]int{1, 1, 1, 1, 1, 1, 1, 1}, segs)
	}
	// Weak accesses and all modes in one call; the error names what is not declared, and the rest
	// is released.
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		var a, b, c int
		ran := make(chan struct{}, 2)
		t.Spawn(func(t *Task) error {
			err := t.Release(deps.In(&a).Weak(), deps.In(&c), deps.Concurrent(&b))
			if err == nil || !contains(err.Error(), "not declared") {
				return fmt.Errorf("Release of an undeclared object: %v", err)
			}
			t.Blocking(func() { <-ran; <-ran })
			return nil
		}, deps.In(&a).Weak(), deps.Concurrent(&b))
		t.Spawn(func(*Task) error { ran <- struct{}{}; return nil }, deps.InOut(&a))
		t.Spawn(func(*Task) error { ran <- struct{}{}; return nil }, deps.InOut(&b))
		return nil
	}))
}

// On one slot, ready tasks run by priority; tasks of equal priority in the order in which they
// became ready; tasks without a priority count as 0. The successor that would run next also takes
// its turn.
func TestNOSV03_PriorityOrder(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var order []int
	put := func(i int) func(*Task) error { return func(*Task) error { order = append(order, i); return nil } }
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for i, p := range []int{5, -2, 1, 9, 5, -1, 9} {
			t.SpawnWith(Attrs{Priority: p}, put(100*p+i))
		}
		t.Spawn(put(0))
		return nil
	}))
	require.Equal(t, []int{903, 906, 500, 504, 102, 0, -95, -199}, order)

	order = nil
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		x := 0
		t.Spawn(put(1), deps.InOut(&x))
		t.Spawn(put(3), deps.InOut(&x))
		t.SpawnWith(Attrs{Priority: 1}, put(2), deps.InOut(new(int)))
		t.SpawnWith(Attrs{Priority: 7}, put(4), deps.InOut(&x))
		t.Spawn(put(5), deps.InOut(&x))
		return nil
	}))
	require.Equal(t, []int{2, 1, 3, 4, 5}, order)
	// Extreme values are legal.
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.SpawnWith(Attrs{Priority: -1 << 62}, put(0))
		t.SpawnWith(Attrs{Priority: 1<<62 - 1}, put(0))
		return nil
	}))
}

// Children do not inherit a priority or a label.
func TestAttributesAreNotInherited(t *testing.T) {
	skipInLintMode(t, "it is about what is there without debug mode, which lint mode includes")
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.SpawnWith(Attrs{Priority: 3, Label: "a", Wait: true}, func(t *Task) error {
			t.Spawn(func(c *Task) error {
				if t.Label() != "a" || c.Label() != "" || c.priority != 0 || c.node.Flags != flagLeaf {
					return errors.New("inherited")
				}
				return nil
			})
			return nil
		})
		if err := t.Wait(); err != nil {
			return err
		}
		for range 3 * pool.Batch { // nor from the last task in the memory
			t.Spawn(func(c *Task) error {
				if c.Label() != "" || c.priority != 0 || c.node.Flags != flagLeaf {
					return errors.New("inherited with the memory")
				}
				return nil
			})
		}
		return nil
	}))
}

// Several runs at once share the slots and nothing else: one fails, the others do not notice.
func TestRunsAtOnceHammer(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 16})
		var wg sync.WaitGroup
		var n notes
		for g := range 6 {
			wg.Go(func() {
				for round := range 30 {
					x := 0
					err := rt.Run(bg, func(t *Task) error {
						for i := range 200 {
							t.Spawn(func(t *Task) error {
								if g%3 == 0 && i == 100 {
									return errBody
								}
								if i%50 == 0 {
									go t.Unblock()
									t.Block()
								}
								x++
								return nil
							}, deps.InOut(&x))
						}
						return t.Wait()
					})
					if g%3 == 0 {
						n.check(errors.Is(err, errBody) && x == 100, "round %d: error %v, count %d", round, err, x)
					} else {
						n.check(err == nil && x == 200, "round %d: error %v, count %d", round, err, x)
					}
				}
			})
		}
		wg.Wait()
		n.require(t)
	}
}

// Close waits for the runs under way; later runs are refused; a second Close does nothing.
func TestADD11_CloseWaitsForRuns(t *testing.T) {
	watch(t)
	for range 30 {
		base := runtime.NumGoroutine()
		rt := openTest(t, Config{Workers: 2})
		in, gate := make(chan struct{}), make(chan struct{})
		var over atomic.Bool
		var wg sync.WaitGroup
		var n notes
		wg.Go(func() {
			err := rt.Run(bg, func(t *Task) error {
				close(in)
				t.Blocking(func() { <-gate })
				for range 100 {
					t.Spawn(func(*Task) error { return nil })
				}
				err := t.Wait()
				over.Store(true)
				return err
			})
			n.check(err == nil, "%v", err)
		})
		<-in
		wg.Go(func() {
			n.check(rt.Close() == nil, "Close failed")
			n.check(over.Load(), "Close did not wait for the run")
		})
		until(func() bool {
			rt.life.mu.Lock()
			defer rt.life.mu.Unlock()
			return rt.life.closed
		})
		n.check(rt.Run(bg, func(*Task) error { return nil }) == ErrClosed, "Run while closing")
		close(gate)
		wg.Wait()
		closeTest(t, rt, base)
		n.require(t)
		require.Equal(t, len(rt.slots.all), rt.Workers())
	}
}

// Two runtimes: a task of one may run the other.
func TestNOSV05_RuntimeInRuntime(t *testing.T) {
	a := newTestRuntime(t, Config{Workers: 1})
	b := newTestRuntime(t, Config{Workers: 1})
	n := 0
	require.NoError(t, a.Run(bg, func(t *Task) error {
		var err error
		t.Blocking(func() { err = b.Run(t.Context(), func(t *Task) error { return countTo(t, 50, &n) }) })
		return err
	}))
	require.Equal(t, 50, n)
	// Cancelling the outer run cancels the inner one.
	err := a.Run(bg, func(t *Task) error {
		t.Spawn(func(t *Task) error {
			var err error
			t.Blocking(func() {
				err = b.Run(t.Context(), func(t *Task) error { return t.Block() })
			})
			return err
		})
		return errBody
	})
	require.ErrorIs(t, err, errBody)
}

// A task that is over refuses its methods. The test calls them on tasks whose memory is not reused.
func TestTaskUsedAfterEnd(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var old *Task
	require.NoError(t, rt.Run(bg, func(t *Task) error { old = t; return nil }))
	for op, f := range map[string]func(){
		"Spawn":     func() { old.Spawn(func(*Task) error { return nil }) },
		"SpawnWith": func() { old.SpawnWith(Attrs{}, func(*Task) error { return nil }) },
		"Wait":      func() { old.Wait() },
		"WaitOn":    func() { old.WaitOn() },
		"Block":     func() { old.Block() },
		"Blocking":  func() { old.Blocking(func() {}) },
		"Release":   func() { old.Release() },
	} {
		text := panicOf(f)
		require.True(t, contains(text, "task: "+op+" on ", "by a goroutine that runs no task", "its body is not running"), "%s: %q", op, text)
	}
	require.Contains(t, panicOf(func() { old.Hold() }), "no pending event")
	old.Unblock() // harmless
}

// A body that panics in the middle of a Spawn, with an illegal access, ends the run like any other.
func TestSpawnWithIllegalAccess(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 20 {
		x := 0
		err := rt.Run(bg, func(t *Task) error {
			t.Spawn(func(t *Task) error {
				t.Spawn(func(*Task) error { return nil }, deps.InOut(&x))
				if err := t.Release(deps.InOut(&x)); err != nil {
					return err
				}
				t.Spawn(func(*Task) error { return nil }, deps.InOut(&x))
				return nil
			}, deps.InOut(&x))
			t.Spawn(func(*Task) error { return nil }, deps.InOut(&x))
			return t.Wait()
		})
		var e *Error
		require.ErrorAs(t, err, &e)
		require.True(t, contains(e.Error(), "given up by Release"), e.Error())
		err = rt.Run(bg, func(t *Task) error { t.Spawn(func(*Task) error { return nil }, deps.Access{}); return nil })
		require.ErrorContains(t, err, "names no object")
	}
	n := 0
	require.NoError(t, rt.Run(context.Background(), func(t *Task) error { return countTo(t, 10, &n) }))
}

// A stack has a bounded number of bodies: the next body, undeferred or run by Wait, gets another
// goroutine.
func TestBodiesOnOneStack(t *testing.T) {
	skipInLintMode(t, "bodies have goroutines of their own there")
	if sched.Goid() == 0 {
		t.Skip("goroutines are not told apart on this machine")
	}
	for name, down := range map[string]func(t *Task, next func(*Task) error) error{
		"undeferred": func(t *Task, next func(*Task) error) error {
			t.SpawnWith(Attrs{Undeferred: true}, next)
			return nil
		},
		"awaited": func(t *Task, next func(*Task) error) error {
			t.Spawn(next)
			return t.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newTestRuntime(t, Config{Workers: 1})
			var stacks []int // by goroutine, in their order: how many bodies began on it
			last := uintptr(0)
			bodies := 0
			var next func(t *Task) error
			next = func(t *Task) error {
				if g := sched.Goid(); g != last {
					last = g
					stacks = append(stacks, 0)
				}
				stacks[len(stacks)-1]++
				if bodies++; bodies < 2*nestMax+5 {
					return down(t, next)
				}
				return nil
			}
			require.NoError(t, rt.Run(bg, next))
			require.Equal(t, []int{nestMax + 1, nestMax + 1, 3}, stacks)
		})
	}
}

// A task that becomes ready by the end of the last descendant is queued before Wait returns:
// another slot runs it while the body goes on.
func TestWaitQueuesWhatItMadeReady(t *testing.T) {
	for _, waits := range []bool{false, true} { // whether the child waits for its own
		rt := newTestRuntime(t, Config{Workers: 2})
		var x int
		var begun, waited, ran atomic.Bool
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(*Task) error { // has the other slot meanwhile
				begun.Store(true)
				until(waited.Load)
				return nil
			})
			t.Spawn(func(t *Task) error {
				until(begun.Load)
				t.SpawnWith(Attrs{Wait: true}, func(t *Task) error {
					t.Spawn(func(*Task) error { return nil })
					if waits {
						return t.Wait()
					}
					return nil
				}, deps.InOut(&x))
				if err := errors.Join(t.Release(deps.InOut(&x).Weak()), t.Wait()); err != nil {
					return err
				}
				waited.Store(true)
				until(ran.Load)
				return nil
			}, deps.InOut(&x).Weak())
			t.Spawn(func(*Task) error { ran.Store(true); return nil }, deps.InOut(&x))
			return nil
		}))
	}
}

// A task that becomes ready by the end of a child runs on top of the body that waits, like a task
// that was ready before: the body keeps its slot.
func TestWaitRunsWhatItMadeReady(t *testing.T) {
	skipInLintMode(t, "bodies have goroutines of their own there")
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		var x int
		g, ran := sched.Goid(), 0
		t.SpawnWith(Attrs{Wait: true}, func(t *Task) error {
			t.Spawn(nothing)
			return nil
		}, deps.InOut(&x))
		for range 3 {
			t.Spawn(func(*Task) error {
				if sched.Goid() == g {
					ran++
				}
				return nil
			}, deps.InOut(&x))
		}
		if err := t.Wait(); err != nil {
			return err
		}
		if ran != 3 {
			return fmt.Errorf("%d of 3 successors have run on top of the body", ran)
		}
		return nil
	}))
}
