// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spawners are the kinds of code that can start a detached task for a run. Each calls spawn in a
// detached task.
var spawners = []struct {
	name string
	main func(rt *Runtime, spawn func()) *Detached
}{
	{"body", func(rt *Runtime, spawn func()) *Detached {
		return rt.Spawn(bg, func(*Task) error { spawn(); return nil })
	}},
	{"child", func(rt *Runtime, spawn func()) *Detached {
		return rt.Spawn(bg, func(t *Task) error {
			t.Spawn(func(*Task) error { spawn(); return nil })
			return nil
		})
	}},
	{"Blocking", func(rt *Runtime, spawn func()) *Detached {
		return rt.Spawn(bg, func(t *Task) error { t.Blocking(spawn); return nil })
	}},
	{"Await", func(rt *Runtime, spawn func()) *Detached {
		return rt.Spawn(bg, func(t *Task) error { return t.Await(func(done func()) { spawn(); done() }) })
	}},
	{"OnReady", func(rt *Runtime, spawn func()) *Detached {
		return rt.SpawnWith(bg, Attrs{OnReady: func(*Task) error { spawn(); return nil }}, nothing)
	}},
	{"OnDone", func(rt *Runtime, spawn func()) *Detached {
		gate := make(chan struct{})
		d := rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return nil })
		d.OnDone(func(error) { spawn() })
		close(gate)
		return d
	}},
	{"OnDone elsewhere", func(rt *Runtime, spawn func()) *Detached {
		ends := make(chan func(error), 1)
		d := rt.Spawn(bg, func(t *Task) error { ends <- t.Hold(); return nil })
		d.OnDone(func(error) { spawn() })
		go func() { (<-ends)(nil) }()
		return d
	}},
	{"Run in Blocking", func(rt *Runtime, spawn func()) *Detached {
		return rt.Spawn(bg, func(t *Task) (err error) {
			t.Blocking(func() { err = rt.Run(bg, func(*Task) error { spawn(); return nil }) })
			return err
		})
	}},
}

// Close waits for all runs that other runs start while it waits, to any depth, whatever part of a
// run starts them. Any other caller is refused. Each call of Close returns after that.
func TestCloseWaitsForAllThatRunsStart(t *testing.T) {
	const depth = 4
	for _, way := range spawners {
		for _, closers := range []int{1, 3} {
			for _, workers := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%d/%d", way.name, closers, workers), func(t *testing.T) {
					watch(t)
					base := runtime.NumGoroutine()
					rt := openTest(t, Config{Workers: workers})
					var n notes
					var ran atomic.Int64
					closing := make(chan struct{})
					var grow func(level int)
					grow = func(level int) {
						ran.Add(1)
						for range 2 {
							if level < depth {
								way.main(rt, func() { grow(level + 1) })
							}
						}
					}
					rt.Spawn(bg, func(t *Task) error {
						t.Blocking(func() { <-closing })
						grow(0)
						return nil
					})
					var wg sync.WaitGroup
					for range closers {
						wg.Go(func() {
							n.check(rt.Close() == nil, "Close failed")
							n.check(ran.Load() == 1<<(depth+1)-1, "Close returned after %d tasks", ran.Load())
						})
					}
					until(func() bool { rt.life.mu.Lock(); defer rt.life.mu.Unlock(); return rt.life.closed })
					require.ErrorIs(t, rt.Spawn(bg, nothing).Wait(bg), ErrClosed)
					require.ErrorIs(t, rt.Run(bg, nothing), ErrClosed)
					close(closing)
					wg.Wait()
					require.NoError(t, rt.Close())
					require.ErrorIs(t, rt.Spawn(bg, nothing).Wait(bg), ErrClosed)
					n.require(t)
					settled(t, base)
				})
			}
		}
	}
}

// A tree of detached tasks that only Close waits for.
func TestCloseWaitsForATree(t *testing.T) {
	watch(t)
	for range 5 {
		base := runtime.NumGoroutine()
		rt := openTest(t, Config{Workers: 2})
		var ran atomic.Int64
		var grow func(n int) func(*Task) error
		grow = func(n int) func(*Task) error {
			return func(*Task) error {
				ran.Add(1)
				if n > 0 {
					rt.Spawn(bg, grow(n-1))
					rt.Spawn(bg, grow(n-1))
				}
				return nil
			}
		}
		rt.Spawn(bg, grow(12))
		closeTest(t, rt, base)
		require.EqualValues(t, 8191, ran.Load())
	}
}

// A second call of Close does not return before the first.
func TestSecondCloseWaits(t *testing.T) {
	watch(t)
	rt := openTest(t, Config{Workers: 2})
	gate := make(chan struct{})
	rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return nil })
	var over atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			rt.Close()
			over.Add(1)
		})
	}
	until(func() bool { rt.life.mu.Lock(); defer rt.life.mu.Unlock(); return rt.life.closed })
	for range 100 {
		runtime.Gosched()
	}
	require.Zero(t, over.Load())
	close(gate)
	wg.Wait()
}

// Close panics at once if it would wait for its caller, and the runtime goes on.
func TestCloseInside(t *testing.T) {
	for _, c := range []struct {
		name, where string
		in          func(rt *Runtime, closeIt func())
	}{
		{"body", "a task", func(rt *Runtime, closeIt func()) { rt.Spawn(bg, func(*Task) error { closeIt(); return nil }) }},
		{"Blocking", "Blocking of task mine", func(rt *Runtime, closeIt func()) {
			rt.SpawnWith(bg, Attrs{Label: "mine"}, func(t *Task) error { t.Blocking(closeIt); return nil })
		}},
		{"body after Blocking", "a task", func(rt *Runtime, closeIt func()) {
			rt.Spawn(bg, func(t *Task) error { t.Blocking(func() {}); closeIt(); return nil })
		}},
		{"Blocking within Run in Blocking", "Blocking of task inner", func(rt *Runtime, closeIt func()) {
			rt.Spawn(bg, func(t *Task) error {
				t.Blocking(func() {
					rt.SpawnWith(bg, Attrs{Label: "inner"}, func(t *Task) error { t.Blocking(closeIt); return nil })
				})
				return nil
			})
		}},
		{"Await", "a task", func(rt *Runtime, closeIt func()) {
			rt.Spawn(bg, func(t *Task) error { return t.Await(func(done func()) { closeIt(); done() }) })
		}},
		{"OnReady", "an OnReady", func(rt *Runtime, closeIt func()) {
			rt.SpawnWith(bg, Attrs{OnReady: func(*Task) error { closeIt(); return nil }}, nothing)
		}},
		{"OnDone", "a callback of a detached task", func(rt *Runtime, closeIt func()) {
			gate := make(chan struct{})
			rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return nil }).OnDone(func(error) { closeIt() })
			close(gate)
		}},
		{"OnDone elsewhere", "a callback of a detached task", func(rt *Runtime, closeIt func()) {
			ends := make(chan func(error), 1)
			rt.Spawn(bg, func(t *Task) error { ends <- t.Hold(); return nil }).OnDone(func(error) { closeIt() })
			(<-ends)(nil)
		}},
		{"Poll", "a function of Poll", func(rt *Runtime, closeIt func()) {
			var once sync.Once
			stop := rt.Poll(func() bool { once.Do(closeIt); return false })
			// a slot polls before it parks
			rt.Run(bg, func(t *Task) error { t.Sleep(time.Millisecond); return nil })
			stop()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := newTestRuntime(t, Config{Workers: 2})
			text := make(chan string, 1)
			c.in(rt, func() { text <- panicOf(func() { rt.Close() }) })
			require.True(t, contains(<-text, "task: Close inside "+c.where, "which it would wait for"))
			require.NoError(t, rt.Run(bg, nothing))
		})
	}
	// Another runtime may be closed anywhere, and the own runtime after the run's functions.
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		other := New(Config{Workers: 1})
		if err := other.Close(); err != nil {
			return err
		}
		t.Blocking(func() {})
		other = New(Config{Workers: 1})
		t.Blocking(func() { other.Close() })
		return nil
	}))
	d := rt.Spawn(bg, nothing)
	require.NoError(t, d.Wait(bg))
	done := make(chan error, 1)
	d.OnDone(func(error) { done <- rt.Close() }) // it is over: this is an ordinary call
	require.NoError(t, <-done)
}
