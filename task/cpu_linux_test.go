// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An idle runtime uses no CPU: with nothing to do, and with all tasks blocked.
func TestIdleUsesNoCPU(t *testing.T) {
	const span, most = 200 * time.Millisecond, 20 * time.Millisecond
	rt := newTestRuntime(t, Config{Workers: 8})
	atRest := func() bool { return rt.sched.Parked() == 8 }
	// The rest of the process may be busy: the best of some tries counts.
	quiet := func() {
		until(atRest)
		best := span
		for try := 0; try < 10 && best > most; try++ {
			before := cpuTime(t)
			<-time.After(span)
			best = min(best, cpuTime(t)-before)
		}
		require.LessOrEqual(t, best, most, "CPU time in %v of idleness", span)
		require.True(t, atRest())
	}
	quiet()
	var blockedTask *Task
	ready := make(chan int)
	done := make(chan error)
	go func() {
		done <- rt.Run(bg, func(t *Task) error {
			blockedTask = t
			for range 100 {
				t.Spawn(func(t *Task) error { return nil })
			}
			if err := t.Wait(); err != nil {
				return err
			}
			close(ready)
			return t.Block()
		})
	}()
	<-ready
	until(func() bool { return blockedTask.block.Load() == blocked })
	quiet()
	blockedTask.Unblock()
	require.NoError(t, <-done)
}
