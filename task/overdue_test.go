// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While a body computes, the report of an overdue run names only tasks in Blocking.
func TestHoldersWhileABodyComputes(t *testing.T) {
	for _, blocking := range []bool{false, true} {
		rt := newTestRuntime(t, Config{Workers: 2})
		var stop atomic.Bool
		var runs atomic.Pointer[run]
		gate, blocked := make(chan struct{}), make(chan struct{})
		over := make(chan error)
		bad := errors.New("bad")
		go func() {
			over <- rt.Run(bg, func(t *Task) error {
				t.Spawn(func(t *Task) error { // waits for the body that computes
					t.Spawn(func(t *Task) error {
						runs.Store(t.run)
						for !stop.Load() {
						}
						return nil
					})
					return t.Wait()
				})
				if blocking {
					t.SpawnWith(Attrs{Label: "blocks"}, func(t *Task) error {
						t.Blocking(func() {
							close(blocked)
							<-gate
						})
						return nil
					})
					t.Blocking(func() { <-blocked })
				}
				t.Blocking(func() { until(func() bool { return runs.Load() != nil }) })
				return bad
			})
		}()
		until(func() bool { return runs.Load() != nil && runs.Load().stopped.Load() })
		var said []string
		for range 50 {
			lines, computes := runs.Load().holders()
			require.True(t, computes)
			said = append(said, lines...)
			runtime.Gosched()
		}
		var pauses []time.Duration
		if !blocking { // the check is repeated, after longer and longer pauses
			l := &runs.Load().overdue
			l.mu.Lock()
			l.timer.Stop()
			l.mu.Unlock()
			for range 3 {
				rt.holderChecks.mu.Lock()
				rt.holderChecks.at = time.Time{} // as if the last check were long ago
				rt.holderChecks.mu.Unlock()
				l.reportHolders(runs.Load(), bad)
				l.mu.Lock()
				if l.timer.Stop() {
					pauses = append(pauses, l.pause)
				}
				l.mu.Unlock()
			}
		}
		stop.Store(true)
		close(gate)
		require.ErrorIs(t, <-over, bad)
		for _, line := range said {
			require.True(t, contains(line, `task "blocks"`, "waits in Blocking"), line)
		}
		require.Equal(t, blocking, len(said) > 0)
		if !blocking {
			require.Equal(t, []time.Duration{2 * holdersAfter, 4 * holdersAfter, 8 * holdersAfter}, pauses)
		}
	}
}

// However many runs are overdue, they rarely check what they wait for.
func TestHoldersAreCheckedSeldom(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.True(t, rt.holderChecks.allow())
	for range 100 {
		require.False(t, rt.holderChecks.allow())
	}
}
