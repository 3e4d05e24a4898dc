// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// fulfiller ends events in its own goroutine, in random order.
type fulfiller struct {
	c  chan func(error)
	wg sync.WaitGroup
}

func newFulfiller(seed uint64) *fulfiller {
	f := &fulfiller{c: make(chan func(error), 64)}
	f.wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 1))
		var have []func(error)
		for open := true; open || len(have) > 0; {
			if len(have) == 0 {
				var e func(error)
				if e, open = <-f.c; !open {
					return
				}
				have = append(have, e)
			}
			select {
			case e, ok := <-f.c:
				if open = ok; ok {
					have = append(have, e)
					continue
				}
			default:
			}
			i := rng.IntN(len(have))
			have[i](nil)
			have[i] = have[len(have)-1]
			have = have[:len(have)-1]
		}
	})
	return f
}

func (f *fulfiller) close() { close(f.c); f.wg.Wait() }

// EVT-01: a thousand tasks bind two events, and two more later; a foreign goroutine ends them; Wait
// waits for all.
func TestEVT01_EventsHammer(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		f := newFulfiller(uint64(workers))
		var ended atomic.Int32
		hold := func(t *Task) {
			e := t.Hold()
			f.c <- func(err error) { ended.Add(1); e(err) }
		}
		var n notes
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 1000 {
				t.Spawn(func(t *Task) error {
					hold(t)
					hold(t)
					hold(t)
					hold(t)
					return nil
				})
			}
			err := t.Wait()
			n.check(ended.Load() == 4000, "Wait returned after %d of 4000 events", ended.Load())
			return err
		}))
		f.close()
		n.require(t)
	}
}

// EVT-02: readers and writers in random order; each sees the events of its predecessors ended.
func TestEVT02_EventsOrderSuccessorsHammer(t *testing.T) {
	rounds, tasks := 100, 300
	if underRace || testing.Short() {
		rounds = 10
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		f := newFulfiller(7)
		var n notes
		rng := rand.New(rand.NewPCG(11, uint64(workers)))
		for range rounds {
			x := 0
			var readers, writers atomic.Int32 // events ended
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				wantW, wantR := int32(0), int32(0)
				for range tasks {
					w, r := wantW, wantR
					if rng.IntN(4) == 0 {
						wantW++
						t.Spawn(func(t *Task) error {
							n.check(writers.Load() == w && readers.Load() == r, "a writer sees %d writers and %d readers; want %d and %d", writers.Load(), readers.Load(), w, r)
							e := t.Hold()
							f.c <- func(err error) { writers.Add(1); e(err) }
							return nil
						}, deps.InOut(&x))
						continue
					}
					wantR++
					t.Spawn(func(t *Task) error {
						n.check(writers.Load() == w, "a reader sees %d writers; want %d", writers.Load(), w)
						e := t.Hold()
						f.c <- func(err error) { readers.Add(1); e(err) }
						return nil
					}, deps.In(&x))
				}
				return nil
			}))
		}
		f.close()
		n.require(t)
	}
}

// Any goroutine may bind another event while one is pending, also after the body is over.
func TestHoldFromOutside(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 200 {
		x, ended := 0, atomic.Int32{}
		var n notes
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(t *Task) error {
				first := t.Hold()
				go func() {
					second := t.Hold()
					go func() {
						third := t.Hold()
						ended.Add(1)
						second(nil)
						go func() { ended.Add(1); third(nil) }()
					}()
					ended.Add(1)
					first(nil)
				}()
				return nil
			}, deps.InOut(&x))
			t.Spawn(func(*Task) error {
				n.check(ended.Load() == 3, "the successor runs after %d of 3 events", ended.Load())
				return nil
			}, deps.In(&x))
			return nil
		}))
		n.require(t)
	}
}

// Hold from outside without a pending event is refused, and from another task as well.
func TestADD05_HoldWithoutEventIsRefused(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(outer *Task) error {
		var text string
		outer.SpawnWith(Attrs{Undeferred: true}, func(*Task) error {
			text = panicOf(func() { outer.Hold() })
			return nil
		})
		if !contains(text, "Hold", "no pending event") {
			return errors.New("Hold by another task: " + text)
		}
		e := outer.Hold()
		outer.SpawnWith(Attrs{Undeferred: true}, func(*Task) error {
			text = panicOf(func() { outer.Hold()(nil) })
			return nil
		})
		e(nil)
		if text != "" {
			return errors.New("Hold by another task while an event is pending: " + text)
		}
		return nil
	}))
}

// Events of the main task, and events that end in the body.
func TestEventsOfMain(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	for range 100 {
		var ended atomic.Bool
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Hold()(nil)
			e := t.Hold()
			go func() { ended.Store(true); e(nil) }()
			return nil
		}))
		require.True(t, ended.Load())
	}
}

// An event's function counts once, however often and by whatever goroutines it is called.
func TestADD05_EventEndsOnce(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 100 {
		var wg sync.WaitGroup
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(t *Task) error {
				e, other := t.Hold(), t.Hold()
				for range 4 {
					wg.Go(func() { e(nil); e(nil) })
				}
				wg.Go(func() { other(nil) })
				return nil
			})
			return nil
		}))
		wg.Wait()
	}
}

// Events that are pending when the run is cancelled are waited for.
func TestCancelWaitsForEvents(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		ctx, cancel := context.WithCancelCause(bg)
		held := make(chan func(error), 10)
		var ended atomic.Int32
		go func() {
			var es []func(error)
			for range cap(held) {
				es = append(es, <-held)
			}
			cancel(errCancel)
			for _, e := range es {
				ended.Add(1)
				e(nil)
			}
		}()
		err := rt.Run(ctx, func(t *Task) error {
			for range cap(held) {
				t.Spawn(func(t *Task) error { held <- t.Hold(); return nil })
			}
			return nil
		})
		require.True(t, err == nil || err == errCancel, "%v", err)
		require.EqualValues(t, cap(held), ended.Load())
	}
}

// A nested task's event delays the successors of its ancestors, too.
func TestEventOfNestedTask(t *testing.T) {
	for _, wait := range []bool{false, true} {
		rt := newTestRuntime(t, Config{Workers: 2})
		for range 100 {
			x := 0
			var ended atomic.Bool
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.SpawnWith(Attrs{Wait: wait}, func(t *Task) error {
					t.SpawnWith(Attrs{Wait: wait}, func(t *Task) error {
						t.Spawn(func(t *Task) error {
							e := t.Hold()
							go func() { ended.Store(true); e(nil) }()
							return nil
						}, deps.InOut(&x))
						return nil
					}, deps.InOut(&x).Weak())
					return nil
				}, deps.InOut(&x).Weak())
				t.Spawn(func(*Task) error { n.check(ended.Load(), "too early"); return nil }, deps.In(&x))
				err := t.Wait()
				n.check(ended.Load(), "Wait too early")
				return err
			}))
			n.require(t)
		}
	}
}
