// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// wakings are the ways to make a task of rt go on. Each spawns that task in t's run and returns the
// function that makes it go on; the task then calls went with itself.
var wakings = []struct {
	name string
	make func(t *Task, a Attrs, went func(*Task) error) func()
}{
	{"event", func(t *Task, a Attrs, went func(*Task) error) func() {
		x, ends := new(int), make(chan func(error), 1)
		t.Spawn(func(t *Task) error { ends <- t.Hold(); return nil }, deps.InOut(x))
		t.SpawnWith(a, went, deps.InOut(x))
		var end func(error)
		t.Blocking(func() { end = <-ends })
		return func() { end(nil) }
	}},
	{"event of a range", func(t *Task, a Attrs, went func(*Task) error) func() {
		x, ends := make([]int, 8), make(chan func(error), 1)
		t.Spawn(func(t *Task) error { ends <- t.Hold(); return nil }, deps.Slice(x[:5]).Commutative())
		t.SpawnWith(a, went, deps.Slice(x[4:]).Commutative())
		var end func(error)
		t.Blocking(func() { end = <-ends })
		return func() { end(nil) }
	}},
	{"event of OnReady", func(t *Task, a Attrs, went func(*Task) error) func() {
		ends := make(chan func(error), 1)
		a.OnReady = func(t *Task) error { ends <- t.Hold(); return nil }
		t.SpawnWith(a, went)
		var end func(error)
		t.Blocking(func() { end = <-ends })
		return func() { end(nil) }
	}},
	{"event of a child that is waited for", func(t *Task, a Attrs, went func(*Task) error) func() {
		ends := make(chan func(error), 1)
		t.SpawnWith(a, func(t *Task) error {
			t.Spawn(func(t *Task) error { ends <- t.Hold(); return nil })
			if err := t.Wait(); err != nil {
				return err
			}
			return went(t)
		})
		var end func(error)
		t.Blocking(func() { end = <-ends })
		return func() { end(nil) }
	}},
	{"Unblock", func(t *Task, a Attrs, went func(*Task) error) func() {
		in := make(chan *Task, 1)
		t.SpawnWith(a, func(t *Task) error {
			in <- t
			if err := t.Block(); err != nil {
				return err
			}
			return went(t)
		})
		var x *Task
		t.Blocking(func() { x = <-in; until(func() bool { return x.block.Load() == blocked }) })
		return x.Unblock
	}},
	{"Await", func(t *Task, a Attrs, went func(*Task) error) func() {
		in := make(chan func(), 1)
		t.SpawnWith(a, func(t *Task) error {
			if err := t.Await(func(done func()) { in <- done }); err != nil {
				return err
			}
			return went(t)
		})
		var done func()
		t.Blocking(func() { done = <-in })
		return done
	}},
	{"Join", func(t *Task, a Attrs, went func(*Task) error) func() {
		ends := make(chan func(error), 1)
		d := t.Runtime().Spawn(bg, func(t *Task) error { ends <- t.Hold(); return nil })
		t.SpawnWith(a, func(t *Task) error {
			if err := d.Join(t); err != nil {
				return err
			}
			return went(t)
		})
		var end func(error)
		t.Blocking(func() { end = <-ends })
		return func() { end(nil) }
	}},
	{"Spawn", func(t *Task, a Attrs, went func(*Task) error) func() {
		return func() { t.Runtime().SpawnWith(bg, a, went) }
	}},
}

// wakers call wake from different kinds of goroutines. busy is a task of the own runtime, other is
// another runtime. They return when wake has been called and gone reports that the woken task has
// run: until then a body keeps its slot.
var wakers = []struct {
	name string
	call func(busy *Task, other *Runtime, wake func(), gone func() bool)
}{
	{"a long body", func(_ *Task, _ *Runtime, wake func(), gone func() bool) { wake(); until(gone) }},
	{"a body of another runtime", func(t *Task, other *Runtime, wake func(), gone func() bool) {
		t.Blocking(func() { _ = other.Run(bg, func(*Task) error { wake(); until(gone); return nil }) })
	}},
	{"an OnDone of another runtime", func(t *Task, other *Runtime, wake func(), gone func() bool) {
		other.Spawn(bg, func(t *Task) error { return t.Sleep(time.Microsecond) }).OnDone(func(error) { wake() })
		t.Blocking(func() { until(gone) })
	}},
	{"a goroutine", func(_ *Task, _ *Runtime, wake func(), gone func() bool) { go wake(); until(gone) }},
	{"a timer", func(_ *Task, _ *Runtime, wake func(), gone func() bool) {
		time.AfterFunc(time.Microsecond, wake)
		until(gone)
	}},
	{"Blocking", func(t *Task, _ *Runtime, wake func(), gone func() bool) { t.Blocking(func() { wake(); until(gone) }) }},
}

// A task that is woken, in whatever way and by whatever goroutine, goes on at once on another slot
// of its own runtime, even while the body that has woken it keeps its slot.
func TestWokenTaskGoesOnOnItsOwnRuntime(t *testing.T) {
	skipInLintMode(t, "tasks and the test share variables that no access orders")
	rt, other := newTestRuntime(t, Config{Workers: 2}), newTestRuntime(t, Config{Workers: 2})
	for _, w := range wakings {
		for _, by := range wakers {
			for prio := -1; prio <= 1; prio++ {
				what := fmt.Sprintf("%s by %s, priority %d", w.name, by.name, prio)
				var n notes
				var gone atomic.Bool
				times := 0
				require.NoError(t, rt.Run(bg, func(t *Task) error {
					wake := w.make(t, Attrs{Priority: prio}, func(t *Task) error {
						s := t.slot
						n.check(s != nil && s.rt == rt && t.Runtime() == rt, "%s: not on a slot of its runtime", what)
						n.check(s != nil && s.Mine() && s.cur.load() == t && rt.here() == s && other.here() == nil, "%s: not the holder of its slot", what)
						times++
						gone.Store(true)
						return nil
					})
					by.call(t, other, wake, gone.Load)
					return nil
				}), what)
				n.require(t)
				require.Equal(t, 1, times, what)
			}
		}
	}
}

// endless are programs that never run out of work until stop.
var endless = []struct {
	name string
	main func(t *Task, stop func() bool) error
}{
	{"a task that spawns the next", func(t *Task, stop func() bool) error { return spawnsOn(t, stop) }},
	{"a loop that goes round by itself", func(t *Task, stop func() bool) error {
		var x int
		t.IterateWith(IterAttrs{While: func(*Task) (bool, error) { return !stop(), nil }}, func(it *Iteration) error {
			it.Spawn(nothing, deps.InOut(&x))
			it.Spawn(nothing, deps.InOut(&x))
			return nil
		})
		return nil
	}},
	{"a chain, spawned faster than it runs", func(t *Task, stop func() bool) error {
		var x int
		for !stop() {
			t.Spawn(nothing, deps.InOut(&x))
		}
		return nil
	}},
	{"children that are waited for", func(t *Task, stop func() bool) error {
		for !stop() {
			for range 100 {
				t.Spawn(nothing)
			}
			if err := t.Wait(); err != nil {
				return err
			}
			if err := t.Sleep(time.Microsecond); err != nil { // else the body never leaves the slot
				return err
			}
		}
		return nil
	}},
	{"two that unblock each other", func(t *Task, stop func() bool) error {
		var pair [2]atomic.Pointer[Task]
		var ends [2]func(error) // neither task is over before the other has unblocked it
		var bodies atomic.Int32
		for i := range pair {
			t.Spawn(func(t *Task) error {
				ends[i] = t.Hold()
				defer func() {
					if bodies.Add(1) == 2 {
						ends[0](nil)
						ends[1](nil)
					}
				}()
				pair[i].Store(t)
				for !stop() {
					if o := pair[1-i].Load(); o != nil {
						o.Unblock()
						if err := t.Block(); err != nil {
							return err
						}
					} else {
						t.Blocking(runtime.Gosched)
					}
				}
				if o := pair[1-i].Load(); o != nil { // else it has not begun, and will not block
					o.Unblock()
				}
				return nil
			})
		}
		return nil
	}},
}

func spawnsOn(t *Task, stop func() bool) error {
	if !stop() {
		t.Spawn(func(t *Task) error { return spawnsOn(t, stop) })
		t.Spawn(nothing)
	}
	return nil
}

// Even if a slot never runs out of its own work, it serves tasks with priorities, tasks from
// outside, and tasks that timers, events and goroutines wake.
func TestServedBesideEndlessWork(t *testing.T) {
	skipInLintMode(t, "tasks and the test share variables that no access orders")
	for _, e := range endless {
		for _, workers := range []int{1, 2} {
			rt := newTestRuntime(t, Config{Workers: workers, Window: 128})
			var stop atomic.Bool
			endlessOver := make(chan error, 1)
			began := make(chan struct{})
			go func() {
				endlessOver <- rt.Run(bg, func(t *Task) error { close(began); return e.main(t, stop.Load) })
			}()
			<-began
			var all sync.WaitGroup
			for prio := range 2 {
				all.Go(func() {
					_ = rt.SpawnWith(bg, Attrs{Priority: prio}, func(t *Task) error {
						ends := make(chan func(error), 1)
						var x int
						t.Spawn(func(t *Task) error { ends <- t.Hold(); return nil }, deps.Out(&x))
						t.SpawnWith(Attrs{Priority: prio}, nothing, deps.In(&x))
						t.Blocking(func() { (<-ends)(nil) })
						if err := t.Sleep(time.Millisecond); err != nil {
							return err
						}
						if _, err := t.BlockFor(time.Millisecond); err != nil {
							return err
						}
						if err := t.Await(func(done func()) { time.AfterFunc(time.Microsecond, done) }); err != nil {
							return err
						}
						return t.WaitOn(deps.In(&x))
					}).Wait(context.Background())
				})
			}
			all.Wait() // if one is not served, the test hangs
			stop.Store(true)
			require.NoError(t, <-endlessOver, e.name)
		}
	}
}
