// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Each test of this file failed, or could have failed, before a fault was mended.

// An early Unblock that no Block has used is not left to the next task in the same memory.
func TestEarlyUnblockIsNotInherited(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var early int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 200 {
			t.Spawn(func(t *Task) error { t.Unblock(); return nil })
		}
		if err := t.Wait(); err != nil {
			return err
		}
		for range 200 {
			t.Spawn(func(t *Task) error {
				if t.block.Load() != blockNone {
					early++
				}
				return nil
			})
		}
		return t.Wait()
	}))
	require.Zero(t, early)
}

// The same, for the next run of a recorded task.
func TestEarlyUnblockOfAnEarlierRound(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var early, rounds int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(20, func(it *Iteration) error {
			it.Spawn(func(t *Task) error {
				if t.block.Load() != blockNone {
					early++
				}
				rounds++
				t.Unblock()
				return nil
			}, deps.InOut(&rounds))
			return nil
		})
		return t.Wait()
	}))
	require.Equal(t, 20, rounds)
	require.Zero(t, early)
}

// A goroutine that gets the identity of an ended worker holds no slot.
func TestClosedRuntimeForgetsWorkers(t *testing.T) {
	watch(t)
	for range 20 {
		rt := openTest(t, Config{Workers: 4})
		require.NoError(t, rt.Close())
		var wg sync.WaitGroup
		var n notes
		for range 64 {
			wg.Go(func() {
				var err error
				p := panicOf(func() { err = rt.Run(bg, func(*Task) error { return nil }) })
				n.check(p == "" && err == ErrClosed, "Run after Close: error %v, panic %q", err, p)
				p = panicOf(func() { err = rt.Close() })
				n.check(p == "" && err == nil, "Close after Close: error %v, panic %q", err, p)
			})
		}
		wg.Wait()
		n.require(t)
	}
}

// If a body ends another task's event, the completion is flushed before the body goes on: here the
// body waits for the parent, which waits for that task.
func TestReleaseInForeignBodyIsCountedAtOnce(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		release := make(chan func(error), 1)
		waited := make(chan struct{})
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(p *Task) error {
				p.Spawn(func(c *Task) error { release <- c.Hold(); return nil })
				err := p.Wait()
				close(waited)
				return err
			})
			t.Spawn(func(x *Task) error {
				var f func(error)
				x.Blocking(func() { f = <-release })
				f(nil)
				<-waited // keeps its slot
				return nil
			})
			return t.Wait()
		}))
	}
}

// A slot flushes delayed completions before it goes to a resumed task.
func TestResumedTaskDoesNotKeepCompletions(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		waited := make(chan struct{})
		blockedNow := make(chan *Task, 1)
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(b *Task) error {
				blockedNow <- b
				if err := b.Block(); err != nil {
					return err
				}
				<-waited // keeps its slot
				return nil
			})
			t.Spawn(func(p *Task) error {
				var b *Task
				p.Blocking(func() {
					b = <-blockedNow
					until(func() bool { return b.block.Load() == blocked })
				})
				for i := range 5 {
					p.Spawn(func(*Task) error {
						if i == 0 {
							b.Unblock()
						}
						return nil
					})
				}
				err := p.Wait()
				close(waited)
				return err
			})
			return t.Wait()
		}))
	}
}

// A slot flushes the completion of a child of an undeferred task before the creator's body goes on:
// here a sibling needs it, and the creator waits for the sibling with its slot.
func TestUndeferredDoesNotKeepCompletions(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		x := 0
		done := make(chan struct{})
		innerOver := make(chan struct{})
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.SpawnWith(Attrs{Undeferred: true, Wait: true}, func(c *Task) error {
				c.Spawn(func(k *Task) error { <-innerOver; return nil }) // runs on the other slot
				until(func() bool { return !rt.sched.Work() })
				c.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { return nil })
				return nil
			}, deps.InOut(&x))
			t.Spawn(func(*Task) error { close(done); return nil }, deps.In(&x))
			close(innerOver)
			<-done // keeps its slot
			return nil
		}))
	}
}

// A successor that becomes ready by a delayed completion is queued before the next body starts, not
// at its end.
func TestKeptCompletionReadiesSuccessorAtOnce(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		x := 0
		done := make(chan struct{})
		var c0, c1 func(error)
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			held := make(chan struct{}, 2)
			t.SpawnWith(Attrs{Wait: true}, func(c *Task) error {
				c.Spawn(func(k *Task) error { c0 = k.Hold(); held <- struct{}{}; return nil })
				c.Spawn(func(k *Task) error { c1 = k.Hold(); held <- struct{}{}; return nil })
				return nil
			}, deps.InOut(&x))
			t.Spawn(func(*Task) error { close(done); return nil }, deps.In(&x))
			t.Blocking(func() { <-held; <-held })
			t.Spawn(func(*Task) error { c0(nil); c1(nil); return nil })
			t.Spawn(func(*Task) error { <-done; return nil })
			return nil
		}))
	}
}

// WaitOn does not run a child on top of the waiter: the waiter itself may have to unblock that
// child afterwards.
func TestWaitOnRunsNoUnrelatedTaskOnTop(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 20 {
			x := 0
			var child *Task
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				ev := make(chan func(error), 1)
				t.Spawn(func(t *Task) error { ev <- t.Hold(); return nil }, deps.InOut(&x))
				t.Blocking(func() {
					f := <-ev
					go func() {
						until(func() bool { return t.idle.Load() >= 2 })
						f(nil)
					}()
				})
				t.Spawn(func(c *Task) error { child = c; return c.Block() })
				if err := t.WaitOn(deps.In(&x)); err != nil {
					return err
				}
				t.Blocking(func() { until(func() bool { return t.idle.Load() >= 1 }) })
				child.Unblock()
				return nil
			}))
		}
	}
}

// The throttle stops counting children that wait for events at once, also while another slot is
// busy.
func TestThrottleIgnoresChildrenWithEvents(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2, Window: 16})
	const n = 1000
	var mu sync.Mutex
	var release []func(error)
	made := make(chan struct{})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		started := make(chan struct{})
		t.Spawn(func(*Task) error { close(started); <-made; return nil }) // keeps its slot
		t.Blocking(func() { <-started })
		for range n {
			t.Spawn(func(t *Task) error {
				mu.Lock()
				release = append(release, t.Hold())
				mu.Unlock()
				return nil
			})
		}
		close(made)
		t.Blocking(func() {
			until(func() bool { mu.Lock(); defer mu.Unlock(); return len(release) == n })
		})
		for _, f := range release {
			f(nil)
		}
		return nil
	}))
}

// Children with a priority run first also when their parent runs them in Wait.
func TestWaitRunsPriorityFirst(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var order []int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for _, p := range []int{0, 2, -1, 7, 0, 2} {
			t.SpawnWith(Attrs{Priority: p}, func(*Task) error { order = append(order, p); return nil })
		}
		return t.Wait()
	}))
	require.Equal(t, []int{7, 2, 2, 0, 0, -1}, order)
}

// The successor that is to run next does not wait for a task with a priority to end while another
// slot is idle.
func TestADD07_SuccessorIsNotStuckBehindPriority(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		x := 0
		started, end, high, ran := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(*Task) error { close(started); <-end; return nil }, deps.InOut(&x))
			<-started
			t.Spawn(func(*Task) error { close(ran); return nil }, deps.InOut(&x))
			t.SpawnWith(Attrs{Priority: 1}, func(*Task) error { close(high); <-ran; return nil })
			close(end)
			<-high
			return t.Wait()
		}))
	}
}

// Deeply nested tasks that wait, are undeferred, or are final use stacks of bounded size: Go ends a
// program whose stack exceeds a limit.
func TestDeepNestsHaveSmallStacks(t *testing.T) {
	skipInLintMode(t, "each body has a goroutine of its own there, and the race detector knows 8128")
	const depth, most = 30_000, 16 << 20 // a nest on one stack takes some kilobytes a level
	old := debug.SetMaxStack(most)
	defer debug.SetMaxStack(old)
	var pad func(int, *Task) error
	for _, c := range []struct {
		name string
		next func(t *Task, fn func(*Task) error) error
	}{
		{"Wait", func(t *Task, fn func(*Task) error) error { t.Spawn(fn); return t.Wait() }},
		{"undeferred", func(t *Task, fn func(*Task) error) error {
			t.SpawnWith(Attrs{Undeferred: true}, fn)
			return nil
		}},
		{"final", func(t *Task, fn func(*Task) error) error {
			t.SpawnWith(Attrs{Final: true}, fn)
			return t.Wait()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reached := 0
			pad = func(n int, t *Task) error {
				var room [1024]byte
				if reached++; n == 0 {
					return nil
				}
				err := c.next(t, func(t *Task) error { return pad(n-1, t) })
				room[n%len(room)]++ // a frame of some size
				return err
			}
			rt := newTestRuntime(t, Config{Workers: 1})
			require.NoError(t, rt.Run(bg, func(t *Task) error { return pad(depth, t) }))
			require.Equal(t, depth+1, reached)
		})
	}
}
