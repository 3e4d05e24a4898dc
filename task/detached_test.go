// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// A detached task runs with all its descendants and events; each callback is called once, before
// Wait's return or after it.
func TestDetached(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			var calls, over atomic.Int32
			d := rt.SpawnWith(bg, Attrs{Label: "d", Priority: 1, Cost: 3, OnReady: func(t *Task) error {
				end := t.Hold()
				go func() { over.Add(1); end(nil) }()
				return nil
			}}, func(t *Task) error {
				if t.Label() != "d" || t.Cost() != 3 {
					return errors.New("attributes")
				}
				x := 0
				t.Spawn(func(t *Task) error { end := t.Hold(); go func() { over.Add(1); end(nil) }(); return nil }, deps.InOut(&x))
				t.Spawn(func(t *Task) error { over.Add(1); return nil }, deps.InOut(&x))
				return nil
			})
			for range 5 {
				d.OnDone(func(err error) {
					if err == nil && over.Load() == 3 {
						calls.Add(1)
					}
				})
			}
			require.NoError(t, d.Wait(bg))
			require.NoError(t, d.Wait(bg))
			require.NoError(t, d.Err())
			require.EqualValues(t, 3, over.Load())
			d.OnDone(func(error) { calls.Add(1) })
			until(func() bool { return calls.Load() == 6 })
		}
	}
}

// A detached task that a task spawns outlasts the spawner's run, does not delay that run's end, and
// does not share its failure.
func TestDetachedFromTask(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		gate := make(chan struct{})
		var d, bad *Detached
		err := rt.Run(bg, func(t *Task) error {
			bad = rt.SpawnWith(bg, Attrs{Label: "bad"}, func(*Task) error { return errEvent })
			d = rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return nil })
			if err := bad.Join(t); !errors.Is(err, errEvent) || t.run.stopped.Load() {
				return errors.New("Join")
			}
			if text := panicOf(func() { d.Wait(bg) }); !contains(text, "inside a task", "Join") {
				return errors.New(text)
			}
			return errBody
		})
		require.ErrorIs(t, err, errBody)
		select {
		case <-d.Done():
			t.Fatal("the detached task ended with the run of its spawner")
		default:
		}
		close(gate)
		require.NoError(t, d.Wait(bg))
		var e *Error
		require.ErrorAs(t, bad.Wait(bg), &e)
		require.Equal(t, "bad", e.Label)
		require.Contains(t, e.Site, "detached_test.go:")
	}
}

// Errors, panics, Goexit, contexts that end before and during, and a waiter that gives up.
func TestNOSV02_DetachedEnds(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, how := range []string{"error", "panic", "goexit", "cancel", "cancelled", "gives up"} {
			ctx, cancel := context.WithCancelCause(bg)
			if how == "cancelled" {
				cancel(errCancel)
			}
			in := make(chan struct{})
			gate := make(chan struct{})
			skipped := true
			d := rt.Spawn(ctx, func(t *Task) error {
				close(in)
				x := 0
				t.Spawn(func(t *Task) error {
					switch how {
					case "error":
						return errBody
					case "panic":
						panic(errBody)
					case "goexit":
						runtime.Goexit()
					case "cancel":
						return t.Block()
					case "gives up":
						t.Blocking(func() { <-gate })
					}
					return nil
				}, deps.InOut(&x))
				t.Spawn(func(t *Task) error { skipped = false; return nil }, deps.InOut(&x))
				return nil
			})
			if how == "cancel" {
				<-in
				cancel(errCancel)
			}
			if how == "gives up" {
				cancelled, stop := context.WithCancelCause(bg)
				stop(errEvent)
				require.Equal(t, errEvent, d.Wait(cancelled))
				require.NoError(t, d.Err())
				close(gate)
			}
			err := d.Wait(bg)
			switch how {
			case "error", "panic":
				require.ErrorIs(t, err, errBody)
			case "goexit":
				require.ErrorIs(t, err, errGoexit)
			case "gives up":
				require.NoError(t, err)
			default:
				require.Equal(t, errCancel, err)
			}
			require.Equal(t, err, d.Err())
			require.Equal(t, how != "gives up", skipped)
			cancel(nil)
		}
	}
}

// Join returns when the task's own run ends. The end of a detached task ends an event that is bound
// to it.
func TestNOSV01_DetachedJoinAndBind(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		gate := make(chan struct{})
		slow := rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return nil })
		ctx, cancel := context.WithCancelCause(bg)
		require.Equal(t, errCancel, rt.Run(ctx, func(t *Task) error {
			go cancel(errCancel)
			if err := slow.Join(t); err != errCancel {
				return errors.New("Join was not cancelled")
			}
			return nil
		}))
		close(gate)
		require.NoError(t, slow.Wait(bg))
		for range 100 {
			x, over := 0, false
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.Spawn(func(t *Task) error {
					d := rt.Spawn(bg, func(t *Task) error {
						t.Spawn(func(*Task) error { over = true; return nil })
						return nil
					})
					d.OnDone(t.Hold())
					return nil
				}, deps.Out(&x))
				t.Spawn(func(*Task) error { n.check(over, "the bound task is not over"); return nil }, deps.In(&x))
				return nil
			}))
			n.require(t)
		}
		// The end of each task ends an event of the next, a hundred levels deep, all in callbacks.
		var chain []*Detached
		var prev *Detached
		ends := make(chan func(error), 1)
		for range 100 {
			before := prev
			prev = rt.Spawn(bg, func(t *Task) error {
				end := t.Hold()
				if before == nil {
					ends <- end
				} else {
					before.OnDone(end)
				}
				return nil
			})
			chain = append(chain, prev)
		}
		(<-ends)(nil)
		for _, d := range chain {
			require.NoError(t, d.Wait(bg))
		}
	}
}

// Close waits for detached tasks, what they start, and their callbacks; a closed runtime refuses
// new ones by the handle's error.
func TestDetachedAndClose(t *testing.T) {
	watch(t)
	for _, workers := range []int{1, 2} {
		base := runtime.NumGoroutine()
		rt := openTest(t, Config{Workers: workers})
		var called, over atomic.Bool
		started := make(chan struct{})
		gate := make(chan struct{})
		var late *Detached
		d := rt.Spawn(bg, func(t *Task) error {
			close(started)
			t.Blocking(func() { <-gate })
			late = rt.Spawn(bg, func(*Task) error { return errBody })
			return late.Join(t)
		})
		d.OnDone(func(error) { called.Store(true) })
		<-started
		go func() {
			until(func() bool { rt.life.mu.Lock(); defer rt.life.mu.Unlock(); return rt.life.closed })
			over.Store(true)
			close(gate)
		}()
		closeTest(t, rt, base)
		require.True(t, over.Load(), "Close did not wait")
		require.True(t, called.Load())
		require.ErrorIs(t, d.Err(), errBody) // the late one's
		require.ErrorIs(t, late.Err(), errBody)
		require.ErrorIs(t, rt.Spawn(bg, func(*Task) error { return nil }).Wait(bg), ErrClosed)
	}
}

// Many at once, from many goroutines and from tasks, some of them failing.
func TestDetachedHammer(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var wg sync.WaitGroup
		var calls, failed, ran atomic.Int32
		spawn := func(i int) *Detached {
			d := rt.Spawn(bg, func(t *Task) error {
				x := 0
				for range 3 {
					t.Spawn(func(*Task) error { x++; return nil }, deps.InOut(&x))
				}
				if err := t.Wait(); err != nil || x != 3 {
					return errors.New("the children are not over")
				}
				ran.Add(1)
				if i%5 == 0 {
					return errBody
				}
				return nil
			})
			d.OnDone(func(err error) {
				calls.Add(1)
				if err != nil {
					failed.Add(1)
				}
			})
			return d
		}
		for range 4 {
			wg.Go(func() {
				for i := range 50 {
					d := spawn(i)
					if i%2 == 0 {
						d.Wait(bg)
					}
				}
			})
			wg.Go(func() {
				if err := rt.Run(bg, func(t *Task) error {
					for i := range 50 {
						t.Spawn(func(t *Task) error { spawn(i).Join(t); return nil })
					}
					return nil
				}); err != nil {
					panic(err)
				}
			})
		}
		wg.Wait()
		until(func() bool { return calls.Load() == 400 })
		require.EqualValues(t, 400, ran.Load())
		require.EqualValues(t, 80, failed.Load())
	}
}

// Misuse panics with texts that name it.
func TestDetachedMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	for text, f := range map[string]func(){
		"nil function":         func() { rt.Spawn(bg, nil) },
		"cannot be undeferred": func() { rt.SpawnWith(bg, Attrs{Undeferred: true}, func(*Task) error { return nil }) },
	} {
		require.True(t, strings.Contains(panicOf(f), text), text)
	}
}
