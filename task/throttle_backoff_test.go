// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// messages spawns n steps of tasks. Each step waits for an event that a goroutine outside ends.
// messages returns how many tasks were alive at most.
func messages(rt *Runtime, n int) (most int64, err error) {
	var live atomic.Int64
	events := make(chan func(error), n)
	go func() {
		for range n {
			(<-events)(nil)
		}
	}()
	err = rt.Run(bg, func(t *Task) error {
		x := 0
		spawn := func(f func(*Task) error, a deps.Access) {
			most = max(most, live.Add(1))
			t.Spawn(func(t *Task) error {
				defer live.Add(-1)
				return f(t)
			}, a)
		}
		for range n {
			spawn(func(t *Task) error { events <- t.Hold(); return nil }, deps.InOut(&x))
			for range 10 {
				spawn(func(*Task) error { return nil }, deps.In(&x))
			}
		}
		return nil
	})
	return most, err
}

// A creator stays throttled while its children wait for messages that come.
func TestThrottleHoldsWhileMessagesCome(t *testing.T) {
	const bound, steps = 128, 2000
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: bound})
		rt.throttle.backoff.min = time.Hour // so only the events let it go on
		most, err := messages(rt, steps)
		require.NoError(t, err)
		require.LessOrEqual(t, most, int64(bound+2*throttleEvery))
	}
}

// If the messages do not come before the creator goes on, it goes on, again and again.
func TestThrottleYieldsToUnspawnedTasks(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2, Window: 8})
	for range 3 {
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			x := 0
			event := make(chan func(error), 1)
			t.Spawn(func(t *Task) error { event <- t.Hold(); return nil }, deps.InOut(&x))
			for range 10 * throttleEvery {
				t.Spawn(func(*Task) error { return nil }, deps.In(&x))
			}
			t.Blocking(func() { (<-event)(nil) })
			return t.Wait()
		}))
	}
}
