// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/task"
)

// A task that an idle slot finds by polling goes on at once; nothing is polled after the end.
func TestPoll(t *testing.T) {
	rt := task.New(task.Config{Workers: 2})
	defer func() { require.NoError(t, rt.Close()) }()
	var release atomic.Pointer[func(error)]
	var polled atomic.Int64
	other := rt.Poll(func() bool { return false })
	stop := rt.Poll(func() bool {
		polled.Add(1)
		if f := release.Swap(nil); f != nil {
			(*f)(nil)
			return true
		}
		return false
	})
	// What polling finds must also be delivered in another way: a slot that has just polled, and
	// parked, does not poll again.
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if f := release.Swap(nil); f != nil {
					(*f)(nil)
				}
			case <-quit:
				return
			}
		}
	}()
	var ran atomic.Int64
	for range 100 {
		require.NoError(t, rt.Run(context.Background(), func(t *task.Task) error {
			t.Spawn(func(t *task.Task) error {
				f := t.Hold()
				release.Store(&f)
				ran.Add(1)
				return nil
			})
			return t.Wait()
		}))
	}
	close(quit)
	<-gone
	require.EqualValues(t, 100, ran.Load())
	require.Positive(t, polled.Load())
	stop()
	other()
	n := polled.Load()
	require.NoError(t, rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { return nil })
		return nil
	}))
	require.Equal(t, n, polled.Load())
}
