// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task/internal/sched"
)

// withProcs runs f with GOMAXPROCS n.
func withProcs(n int, f func()) {
	old := runtime.GOMAXPROCS(n)
	defer runtime.GOMAXPROCS(old)
	f()
}

// openSpin opens a runtime whose slots search rounds times before they park; -1: the default.
func openSpin(t testing.TB, cfg Config, rounds int) *Runtime {
	t.Helper()
	if rounds < 0 {
		rounds = sched.Rounds
	}
	rt, err := open(cfg, tuning{rounds: rounds})
	require.NoError(t, err)
	return rt
}

// A lost wake-up hangs the test: one piece of work after the other arrives at a runtime that is
// about to park, from outside and from inside.
func TestIdleHammer(t *testing.T) {
	watch(t)
	rounds := 300
	if underRace || testing.Short() {
		rounds = 60
	}
	for _, procs := range []int{1, 2, 4} {
		for _, spin := range []int{0, 1, -1} {
			for _, workers := range []int{1, 2, 3, 8} {
				withProcs(procs, func() {
					base := runtime.NumGoroutine()
					rt := openSpin(t, Config{Workers: workers}, spin)
					idleHammer(t, rt, rounds)
					closeTest(t, rt, base)
				})
			}
		}
	}
}

func idleHammer(t *testing.T, rt *Runtime, rounds int) {
	// Single tasks from outside, one after the other and from two goroutines at once.
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range rounds {
				rt.Run(bg, func(*Task) error { return nil })
			}
		})
	}
	wg.Wait()

	// Wake-ups of blocked tasks by two goroutines, with nothing else to do.
	c := make(chan *Task, 2)
	for range 2 {
		wg.Go(func() {
			for t := range c {
				t.Unblock()
			}
		})
	}
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 2 {
			t.Spawn(func(t *Task) error {
				for range rounds {
					c <- t
					if err := t.Block(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return nil
	}))
	close(c)
	wg.Wait()

	// Fan out and in, so that slots park and wake at each step; the priorities use the other
	// queues.
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		var x int
		for r := range rounds {
			var n atomic.Int32
			for i := range 3 {
				t.SpawnWith(Attrs{Priority: (r+i)%3 - 1}, func(*Task) error { n.Add(1); return nil }, deps.In(&x))
			}
			if err := t.Wait(); err != nil {
				return err
			}
			if n.Load() != 3 {
				return fmt.Errorf("%d of 3", n.Load())
			}
		}
		return nil
	}))

	// Two tasks that need two slots at once: after a lost wake-up one of them waits for ever.
	if rt.Workers() > 1 {
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range rounds {
				a, b := make(chan int), make(chan int)
				t.Spawn(func(*Task) error { close(a); <-b; return nil })
				t.Spawn(func(*Task) error { close(b); <-a; return nil })
				if err := t.Wait(); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// Two waiters and a body that keeps its slot: an idle slot finds the work that the body makes while
// the body runs on.
func TestIdleSlotFindsWorkOfBusyOneHammer(t *testing.T) {
	for _, spin := range []int{0, -1} {
		watch(t)
		base := runtime.NumGoroutine()
		rt := openSpin(t, Config{Workers: 2}, spin)
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 500 {
				ran := make(chan int)
				t.Spawn(func(*Task) error { close(ran); return nil })
				<-ran // keeps its slot
			}
			return nil
		}))
		closeTest(t, rt, base)
	}
}

// The counters of the protocol are zero, or all slots, when a runtime is at rest.
func TestIdleCountersAtRest(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 4})
	for range 100 {
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 20 {
				t.Spawn(func(*Task) error { return nil })
			}
			return nil
		}))
		until(func() bool { return rt.sched.NotAtRest() == "" })
		parked, _ := rt.sched.Parks()
		require.Equal(t, 4, parked)
	}
}
