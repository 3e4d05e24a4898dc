// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// TIM-01, without the part that depends on the machine: ten tasks sleep a hundred times each, never
// for less than the given time, on any number of slots.
func TestTIM01_Sleep(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var n notes
		var slept atomic.Int32
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 10 {
				t.Spawn(func(t *Task) error {
					for i := range 100 {
						d := time.Duration(i%4) * 50 * time.Microsecond
						start := time.Now()
						if err := t.Sleep(d); err != nil {
							return err
						}
						n.check(time.Since(start) >= d, "slept for %v instead of %v", time.Since(start), d)
						slept.Add(1)
					}
					return nil
				})
			}
			return nil
		}))
		n.require(t)
		require.EqualValues(t, 1000, slept.Load())
	}
}

// A sleeping task keeps no slot, and no goroutine but its own: on one slot, ten thousand tasks
// sleep at once.
func TestSleepKeepsNoSlot(t *testing.T) {
	skipInLintMode(t, "bodies have goroutines of their own there, as have OnReady's")
	rt := newTestRuntime(t, Config{Workers: 1})
	const n = 10_000
	ctx, cancel := context.WithCancelCause(bg)
	var in, out atomic.Int32
	err := rt.Run(ctx, func(t *Task) error {
		base := runtime.NumGoroutine()
		for range n {
			t.Spawn(func(t *Task) error {
				in.Add(1)
				if err := t.Sleep(time.Hour); err != errCancel {
					return errors.New("Sleep was not cancelled")
				}
				out.Add(1)
				return t.Sleep(time.Hour) // at once
			})
		}
		for in.Load() < n {
			if err := t.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		if g := runtime.NumGoroutine(); g > base+n+10 {
			return errors.New("goroutines other than those of the tasks")
		}
		cancel(errCancel)
		return nil
	})
	require.Equal(t, errCancel, err)
	require.EqualValues(t, n, out.Load())
}

// Sleep for zero or less does not wait; it returns the run's error.
func TestSleepForNothing(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for _, d := range []time.Duration{0, -1, -1 << 63} {
			unblocked, err := t.BlockFor(d)
			if unblocked || err != nil || t.Sleep(d) != nil {
				return errors.New("not nothing")
			}
			t.Unblock()
			t.Unblock()
			if unblocked, err = t.BlockFor(d); !unblocked || err != nil {
				return errors.New("an Unblock is forgotten")
			}
			if unblocked, _ = t.BlockFor(d); unblocked {
				return errors.New("an Unblock is remembered twice")
			}
		}
		return nil
	}))
	err := rt.Run(bg, func(t *Task) error {
		t.run.fail(errBody)
		_, err := t.BlockFor(-1)
		return errors.Join(err, t.Sleep(0), t.Sleep(time.Hour))
	})
	require.Equal(t, errBody, err)
}

// Unblock ends BlockFor and not Sleep; the time ends both; BlockFor says what ended it.
func TestNOSV04_BlockFor(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 20 {
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				start := time.Now()
				if unblocked, err := t.BlockFor(time.Millisecond); unblocked || err != nil || time.Since(start) < time.Millisecond {
					return errors.New("the time is not over")
				}
				go func() { until(func() bool { return t.block.Load() == blocked }); t.Unblock() }()
				if unblocked, err := t.BlockFor(time.Hour); !unblocked || err != nil {
					return errors.New("not unblocked")
				}
				t.Unblock()
				start = time.Now()
				if err := t.Sleep(time.Millisecond); err != nil || time.Since(start) < time.Millisecond {
					return errors.New("Unblock ended Sleep")
				}
				if unblocked, err := t.BlockFor(time.Hour); !unblocked || err != nil {
					return errors.New("an Unblock during Sleep is forgotten")
				}
				time.AfterFunc(time.Millisecond, t.Unblock)
				return t.Block()
			}))
		}
	}
}

// The time, Unblock and the end of the run at the same moment: no Unblock is lost or counted twice.
func TestBlockForRacesHammer(t *testing.T) {
	rounds := 300
	if testing.Short() || underRace {
		rounds = 60
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var n notes
		for round := range rounds {
			ctx, cancel := context.WithCancelCause(bg)
			err := rt.Run(ctx, func(t *Task) error {
				for i := range 6 {
					t.Spawn(func(t *Task) error {
						rng := rand.New(rand.NewPCG(uint64(round), uint64(i)))
						for range 10 {
							// One Unblock per wait: if the time comes first, the following Block
							// finds the early Unblock; else it would wait for ever.
							var wg sync.WaitGroup
							late := rng.IntN(100)
							wg.Go(func() {
								for range late {
									runtime.Gosched()
								}
								t.Unblock()
							})
							unblocked, err := t.BlockFor(time.Duration(1 + rng.IntN(40_000)))
							if err != nil {
								t.Blocking(wg.Wait)
								return err
							}
							if !unblocked {
								if err := t.Block(); err != nil {
									t.Blocking(wg.Wait)
									return err
								}
							}
							t.Blocking(wg.Wait)
							n.check(t.block.Load() == blockNone, "an early Unblock is left")
						}
						return nil
					})
				}
				if round%3 == 0 {
					go cancel(errCancel)
				}
				return nil
			})
			n.check(err == nil || round%3 == 0 && err == errCancel, "Run returned %v", err)
			cancel(nil)
		}
		n.require(t)
	}
}

// A timer that is late does not end the next wait of its task.
func TestLateTimer(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		l := &limit{t: t}
		if l.end() {
			return errors.New("expired")
		}
		var meant atomic.Bool
		go func() {
			until(func() bool { return t.block.Load() == blocked })
			l.expire()
			meant.Store(true)
			t.Unblock()
		}()
		if err := t.Block(); err != nil || !meant.Load() {
			return errors.New("a late timer ended Block")
		}
		return nil
	}))
}

// Tasks with accesses sleep one after the other; others overtake them.
func TestSleepKeepsAccesses(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var log []int
	x := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for i := range 5 {
			t.Spawn(func(t *Task) error {
				err := t.Sleep(200 * time.Microsecond)
				log = append(log, i)
				return err
			}, deps.InOut(&x))
		}
		return nil
	}))
	require.Equal(t, []int{0, 1, 2, 3, 4}, log)
}
