// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// API-01: what a task-aware library needs of a runtime (ALPI's checks): the current task, block and
// unblock, timed waits, events, detached tasks with a callback, processors, suspension until
// something else, and errors with texts. Versions and features need no query in Go: a missing
// feature does not compile.
func TestAPI01_TaskAwareLibrary(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		run := func(name string, main func(t *Task) error) {
			t.Run(name, func(t *testing.T) { require.NoError(t, rt.Run(bg, main)) })
		}
		fails := func(ok bool, what string) error {
			if ok {
				return nil
			}
			return errors.New(what)
		}

		run("self", func(t *Task) error {
			var child *Task
			t.SpawnWith(Attrs{Label: "child", Undeferred: true}, func(c *Task) error {
				child = c
				return fails(c != t && c.Label() == "child", "the task is not its own")
			})
			return fails(child != nil && t.Runtime() == rt && t.Context() != nil && t.Label() == "", "the task")
		})
		run("processors", func(t *Task) error { return fails(t.Runtime().Workers() == workers, "Workers") })
		run("unblock before block", func(t *Task) error {
			t.Unblock()
			return t.Block()
		})
		run("unblock is for one block", func(t *Task) error {
			t.Unblock()
			t.Unblock()
			err := t.Block()
			unblocked, err2 := t.BlockFor(0)
			return errors.Join(err, err2, fails(!unblocked, "two Unblocks counted"))
		})
		run("unblock by another task and by a goroutine", func(t *Task) error {
			for i := range 20 {
				if i%2 == 0 {
					go t.Unblock()
				} else {
					t.Spawn(func(*Task) error { t.Unblock(); return nil })
				}
				if err := t.Block(); err != nil {
					return err
				}
			}
			return nil
		})
		run("a blocked task keeps no slot", func(t *Task) error {
			var ran atomic.Int32
			blocked := make([]*Task, 3*workers)
			for i := range blocked {
				t.Spawn(func(t *Task) error { blocked[i] = t; ran.Add(1); return t.Block() })
			}
			t.Blocking(func() { until(func() bool { return ran.Load() == int32(3*workers) }) })
			for _, b := range blocked {
				b.Unblock()
			}
			return t.Wait()
		})
		run("waitfor", func(t *Task) error {
			for _, d := range []time.Duration{0, time.Microsecond, 300 * time.Microsecond} {
				start := time.Now()
				if err := t.Sleep(d); err != nil || time.Since(start) < d {
					return errors.New("Sleep is too short")
				}
			}
			unblocked, err := t.BlockFor(time.Microsecond)
			return errors.Join(err, fails(!unblocked, "BlockFor returned true without an Unblock"))
		})
		run("events", func(t *Task) error {
			x := 0
			var ends []func(error)
			t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error {
				for range 5 {
					ends = append(ends, t.Hold())
				}
				return nil
			}, deps.Out(&x))
			after := false
			t.Spawn(func(*Task) error { after = true; return nil }, deps.In(&x))
			for i, end := range ends {
				t.Blocking(func() { until(rt.atRest) })
				if after {
					return fmt.Errorf("released after %d of %d events", i, len(ends))
				}
				end(nil)
				end(nil) // once more counts for nothing
			}
			return errors.Join(t.Wait(), fails(after, "not released"))
		})
		run("an event that fails", func(t *Task) error {
			other := rt.Spawn(bg, func(t *Task) error { t.Hold()(errEvent); return nil })
			return fails(errors.Is(other.Join(t), errEvent), "the error is lost")
		})
		run("spawn calls back exactly once", func(t *Task) error {
			var called, ran atomic.Int32
			var errs [3]error
			for i, body := range []func(*Task) error{
				func(*Task) error { ran.Add(1); return nil },
				func(*Task) error { ran.Add(1); return errBody },
				func(t *Task) error { // with goroutines and events that outlast the body
					end := t.Hold()
					t.Spawn(func(*Task) error { ran.Add(1); go end(nil); return nil })
					return nil
				},
			} {
				d := rt.SpawnWith(bg, Attrs{Label: "spawned"}, body)
				d.OnDone(func(err error) { errs[i] = err; called.Add(1) })
				d.Join(t)
			}
			t.Blocking(func() { until(func() bool { return called.Load() == 3 }) })
			return fails(ran.Load() == 3 && errs[0] == nil && errors.Is(errs[1], errBody) && errs[2] == nil, "the callbacks' errors")
		})
		run("suspend until something happens", func(t *Task) error {
			return t.Await(func(done func()) {
				t.Spawn(func(*Task) error { done(); done(); return nil })
			})
		})
		run("WaitOn", func(t *Task) error {
			x, y := 0, 0
			var end func(error)
			t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error { end = t.Hold(); return nil }, deps.Out(&y))
			t.Spawn(func(*Task) error { x = 1; return nil }, deps.Out(&x))
			err := t.WaitOn(deps.In(&x))
			defer end(nil)
			return errors.Join(err, fails(x == 1, "WaitOn is early"))
		})
	}
}

// NOSV-01: join with a time limit and a result: a waiter may give up, and ask again.
func TestNOSV01_Join(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	gate := make(chan struct{})
	d := rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return errBody })
	late, cancel := context.WithTimeout(bg, time.Nanosecond)
	defer cancel()
	require.ErrorIs(t, d.Wait(late), context.DeadlineExceeded)
	require.NoError(t, d.Err(), "it is not over")
	close(gate)
	for range 2 {
		require.ErrorIs(t, d.Wait(bg), errBody)
	}
	require.ErrorIs(t, d.Wait(late), errBody, "what is over is over")
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		if !errors.Is(d.Join(t), errBody) {
			return errors.New("Join")
		}
		return nil
	}))
}

// NOSV-05: runtimes one after another and at the same time; nothing is left of them, and they are
// independent.
func TestNOSV05_Reinit(t *testing.T) {
	watch(t)
	base := runtime.NumGoroutine()
	for i := range 30 {
		rt := openTest(t, Config{Workers: 1 + i%3})
		n := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error { return countTo(t, 20, &n) }))
		require.Equal(t, 20, n)
		closeTest(t, rt, base)
		require.NoError(t, rt.Close())
		require.ErrorIs(t, rt.Run(bg, func(*Task) error { return nil }), ErrClosed)
	}
	var all []*Runtime
	for i := range 4 {
		all = append(all, openTest(t, Config{Workers: 1 + i%2}))
	}
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i, rt := range all {
		for range 3 { // concurrent runs on each runtime
			wg.Go(func() {
				n := 0
				err := rt.Run(bg, func(t *Task) error {
					if err := countTo(t, 100, &n); err != nil || i%2 == 0 {
						return err
					}
					return errBody // ends its own run only
				})
				if n != 100 || errors.Is(err, errBody) != (i%2 == 1) {
					failed.Add(1)
				}
			})
		}
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	for _, rt := range all {
		require.NoError(t, rt.Close())
	}
	settled(t, base)
}

// NOSV-06: a mistake is an error that can be told from others, or a panic that says which call was
// made, by which task, and what is legal.
func TestNOSV06_Errors(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		text string
	}{
		{Config{Workers: -1}, "Config.Workers is -1; legal are 1 to"},
		{Config{Workers: 1 << 20}, "Config.Workers is 1048576; legal are 1 to"},
		{Config{Window: 1}, "Config.Window is 1; legal are 2 to"},
	} {
		_, err := Open(c.cfg)
		require.ErrorContains(t, err, c.text)
		require.Contains(t, panicOf(func() { New(c.cfg) }), c.text)
	}
	for name, value := range map[string]string{EnvWorkers: "many", EnvWindow: "1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			_, err := Open(Config{})
			require.True(t, err != nil && contains(err.Error(), name, value, "legal"), "%v", err)
		})
	}
	rt := newTestRuntime(t, Config{Workers: 1})
	var m Mutex
	ctx, cancel := context.WithCancelCause(bg)
	cancel(errCancel)
	run := func(f func(*Task) error) error { return rt.Run(bg, f) }
	for _, c := range []struct {
		name string
		err  error
		is   error
	}{
		{"a body's error", run(func(*Task) error { return errBody }), errBody},
		{"an event's error", run(func(t *Task) error { t.Hold()(errEvent); return nil }), errEvent},
		{"a panic with an error", run(func(*Task) error { panic(errBody) }), errBody},
		{"the end of a goroutine", run(func(*Task) error { runtime.Goexit(); return nil }), errGoexit},
		{"a lock that is kept", run(func(t *Task) error { return m.Lock(t) }), ErrLocked},
		{"a context that has ended", rt.Run(ctx, func(*Task) error { return nil }), errCancel},
	} {
		require.ErrorIs(t, c.err, c.is, c.name)
	}
	require.NoError(t, run(func(t *Task) error {
		nothing := func(*Task) error { return nil }
		for _, c := range []struct {
			call  func()
			parts []string
		}{
			{func() { t.Spawn(nil) }, []string{"the body is nil"}},
			{func() { t.Loop(0, 1, nil) }, []string{"the body is nil"}},
			{func() { rt.Run(bg, nothing) }, []string{"Run inside a task", "use Spawn and Wait"}},
			{func() { rt.Close() }, []string{"Close inside a task"}},
			{func() { rt.SpawnWith(bg, Attrs{Undeferred: true}, nothing) }, []string{"undeferred", "Task.SpawnWith"}},
			{func() { t.Spawn(nothing, deps.Access{}) }, []string{"names no object"}},
			{func() { deps.In[int](nil) }, []string{"nil *int"}},
			{func() { deps.In(&struct{}{}) }, []string{"zero-size"}},
			{func() { m.Unlock(t) }, []string{"Unlock"}},
		} {
			if text := panicOf(c.call); !contains(text, c.parts...) {
				return errors.New(text)
			}
		}
		return nil
	}))
}
