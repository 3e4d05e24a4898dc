// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// CRT-01: no other task is in the section, on entry, after a wait in it, and on exit; and the sum
// is right.
func TestCRT01_MutexHammer(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var n notes
		var m Mutex
		var in atomic.Int32
		sum := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range 200 {
				t.Spawn(func(t *Task) error {
					for k := range 5 {
						if k%2 == 1 && m.TryLock(t) {
							sum++
							m.Unlock(t)
							continue
						}
						if err := t.Critical(&m, func() error {
							n.check(in.Add(1) == 1, "not alone on entry")
							sum++
							switch i % 4 {
							case 1:
								t.Blocking(runtime.Gosched)
							case 2:
								go t.Unblock()
								if err := t.Block(); err != nil {
									return err
								}
							case 3:
								t.Spawn(func(*Task) error { return nil })
								if err := t.Wait(); err != nil {
									return err
								}
							}
							n.check(in.Add(-1) == 0, "not alone on exit")
							return nil
						}); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		}))
		n.require(t)
		require.Equal(t, 1000, sum)
		require.Nil(t, m.holder)
	}
}

// Tasks get the Mutex in the order in which they asked, and wait without a slot.
func TestMutexIsFair(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		const n = 50
		var m Mutex
		var order []int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			if err := m.Lock(t); err != nil {
				return err
			}
			for i := range n {
				before := t.idle.Load()
				t.Spawn(func(t *Task) error {
					if m.TryLock(t) {
						return errors.New("TryLock of a Mutex that is locked")
					}
					err := m.Lock(t)
					order = append(order, i)
					m.Unlock(t)
					return err
				})
				t.Blocking(func() { until(func() bool { return t.idle.Load() > before }) })
			}
			m.Unlock(t)
			return nil
		}))
		require.Len(t, order, n)
		for i, k := range order {
			require.Equal(t, i, k)
		}
	}
}

// Misuse panics with texts that name the tasks.
func TestMutexMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var m Mutex
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		want := func(f func(), parts ...string) error {
			if text := panicOf(f); !contains(text, append(parts, "mutex_test.go:")...) {
				return fmt.Errorf("%v: panic %q", parts, text)
			}
			return nil
		}
		err := want(func() { m.Unlock(t) }, "Unlock", "nobody has it")
		if err := m.Lock(t); err != nil {
			return err
		}
		err = errors.Join(err, want(func() { m.Lock(t) }, "Lock", "has already"))
		t.SpawnWith(Attrs{Label: "top", Undeferred: true}, func(c *Task) error {
			err = errors.Join(err,
				want(func() { m.Unlock(c) }, "Unlock", "task top", "has it"),
				want(func() { m.Lock(c) }, "Lock", "task top", "neither could go on"),
				want(func() { m.Unlock(t) }, "Unlock on", "by task top"))
			return nil
		})
		m.Unlock(t)
		if m.Lock(t) != nil {
			return errors.New("Lock")
		}
		m.Unlock(t)
		text := ""
		t.Blocking(func() { text = panicOf(func() { m.Lock(t) }) })
		if !contains(text, "Lock on", "no task") {
			err = errors.Join(err, errors.New(text))
		}
		return err
	}))
}

// A body that ends with a locked Mutex ends the run, however the body ends. The Mutex passes to the
// tasks that wait for it, also in other runs.
func TestMutexNotUnlocked(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, how := range []string{"return", "error", "panic", "goexit", "events"} {
			var m, other, free Mutex
			locked := make(chan struct{})
			waits := make(chan struct{})
			var ended atomic.Bool
			bad := make(chan error)
			go func() {
				bad <- rt.Run(bg, func(t *Task) error {
					t.SpawnWith(Attrs{Label: "bad"}, func(t *Task) error {
						for _, x := range []*Mutex{&m, &free, &other} {
							if err := x.Lock(t); err != nil {
								return err
							}
						}
						free.Unlock(t)
						close(locked)
						t.Blocking(func() { <-waits })
						switch how {
						case "error":
							return errBody
						case "panic":
							panic(errBody)
						case "goexit":
							runtime.Goexit()
						case "events":
							end := t.Hold()
							go func() { ended.Store(true); end(nil) }()
						}
						return nil
					})
					return nil
				})
			}()
			<-locked
			got := false
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				idle := t.idle.Load()
				t.Spawn(func(t *Task) error {
					return t.Critical(&m, func() error { return t.Critical(&other, func() error { got = true; return nil }) })
				})
				t.Blocking(func() { until(func() bool { return t.idle.Load() > idle }) })
				close(waits)
				return nil
			}))
			err := <-bad
			require.True(t, got)
			require.Equal(t, how == "events", ended.Load())
			want := map[string]error{"error": errBody, "panic": errBody, "goexit": errGoexit}[how]
			if want == nil {
				want = ErrLocked
			}
			require.ErrorIs(t, err, want)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "bad", e.Label)
			require.Nil(t, m.holder)
			require.Nil(t, other.holder)
			require.Nil(t, free.holder)
		}
	}
}

// The end of the run ends the wait in Lock with the run's error. A free Mutex can still be locked
// afterwards.
func TestMutexAndEndOfRun(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 20 {
			const n = 20
			var m Mutex
			var out atomic.Int32
			ctx, cancel := context.WithCancelCause(bg)
			err := rt.Run(ctx, func(t *Task) error {
				if err := m.Lock(t); err != nil {
					return err
				}
				for range n {
					t.Spawn(func(t *Task) error {
						first, again := m.Lock(t), m.Lock(t)
						if first == errCancel && again == errCancel && !m.TryLock(t) {
							out.Add(1)
						}
						return nil
					})
				}
				t.Blocking(func() { until(func() bool { return t.idle.Load() == n }) })
				cancel(errCancel)
				t.Wait()
				m.Unlock(t)
				if err := m.Lock(t); err != nil {
					return errors.New("a free Mutex was not locked")
				}
				m.Unlock(t)
				return nil
			})
			require.Equal(t, errCancel, err)
			require.EqualValues(t, n, out.Load())
			require.Nil(t, m.holder)
			require.Nil(t, m.queue.first)
			require.Nil(t, m.queue.last)
		}
	}
}

// Passing a Mutex on races with the end of one of two runs: all tasks of the other run get it.
func TestMutexCancelRacesHammer(t *testing.T) {
	rounds := 200
	if underRace || testing.Short() {
		rounds = 40
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range rounds {
			var m Mutex
			var in atomic.Int32
			var n notes
			sum := 0
			use := func(t *Task) error {
				for range 3 {
					err := t.Critical(&m, func() error {
						n.check(in.Add(1) == 1, "not alone")
						sum++
						t.Blocking(runtime.Gosched)
						n.check(in.Add(-1) == 0, "not alone")
						return nil
					})
					if err != nil {
						return err
					}
				}
				return nil
			}
			ctx, cancel := context.WithCancelCause(bg)
			doomed := make(chan error)
			go func() {
				doomed <- rt.Run(ctx, func(t *Task) error {
					for i := range 10 {
						t.Spawn(use)
						if i == 7 {
							go cancel(errCancel)
						}
					}
					return nil
				})
			}()
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for range 10 {
					t.Spawn(use)
				}
				return nil
			}))
			if err := <-doomed; err != nil {
				require.Equal(t, errCancel, err)
			}
			n.require(t)
			require.GreaterOrEqual(t, sum, 30)
			require.Nil(t, m.holder)
			require.Nil(t, m.queue.first)
		}
	}
}

// Several Mutexes at a time, unlocked in another order; Lock allocates nothing if it does not wait.
func TestMutexSeveral(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var ms [4]Mutex
	x := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for i := range 50 {
			t.Spawn(func(t *Task) error {
				for k := range ms {
					if err := ms[k].Lock(t); err != nil {
						return err
					}
				}
				x++
				for k := range ms {
					ms[(k*3+i)%len(ms)].Unlock(t)
				}
				return nil
			})
		}
		if err := t.Wait(); err != nil {
			return err
		}
		if allocs := testing.AllocsPerRun(100, func() {
			if ms[0].Lock(t) == nil {
				ms[0].Unlock(t)
			}
		}); allocs > 0 {
			return fmt.Errorf("%v allocations", allocs)
		}
		return nil
	}))
	require.Equal(t, 50, x)
	// Mutexes are independent of accesses: an object may be protected by both.
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 10 {
			t.Spawn(func(t *Task) error { return t.Critical(&ms[0], func() error { x++; return nil }) }, deps.Concurrent(&ms[0]))
		}
		return nil
	}))
	require.Equal(t, 60, x)
}
