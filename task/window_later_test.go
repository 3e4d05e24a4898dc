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

// messages makes n steps of tasks, of which each step waits for an event that comes from elsewhere,
// and returns how many were alive at most.
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

// A creator does not run ahead whenever its children wait for messages, which come.
func TestWindowHoldsWhileMessagesCome(t *testing.T) {
	const window, steps = 128, 2000
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: window})
		rt.window.later.min = time.Hour // so nothing but the events lets it go on
		most, err := messages(rt, steps)
		require.NoError(t, err)
		require.LessOrEqual(t, most, int64(window+2*windowLook))
	}
}

// If they do not come until the creator goes on, it does, again and again.
func TestWindowGivesWayToWhatIsNotMadeYet(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2, Window: 8})
	for range 3 {
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			x := 0
			event := make(chan func(error), 1)
			t.Spawn(func(t *Task) error { event <- t.Hold(); return nil }, deps.InOut(&x))
			for range 10 * windowLook {
				t.Spawn(func(*Task) error { return nil }, deps.In(&x))
			}
			t.Blocking(func() { (<-event)(nil) })
			return t.Wait()
		}))
	}
}
