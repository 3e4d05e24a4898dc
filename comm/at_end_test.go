// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A function given to AtEnd is called once, when the run ends or is aborted, and finds pending
// operations completed. Run returns when the function has, and not before. A stopped function is
// not called, and Run does not wait for it.
func TestAtEnd(t *testing.T) {
	for _, abort := range []bool{false, true} {
		var called, stopped atomic.Int32
		begun, release := make(chan struct{}), make(chan struct{})
		var returned atomic.Bool
		var pending *Request
		var stopAfter func() bool
		over := make(chan error, 1)
		go func() {
			err := Run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
				if c.Rank() == 1 {
					return nil
				}
				pending = c.Irecv(Buffer{}, 1, 1)
				for range 3 {
					stop := c.AtEnd(func() { stopped.Add(1) })
					if !stop() || stop() {
						return errTest
					}
				}
				for range 2 {
					stopAfter = c.AtEnd(func() {
						if called.Add(1) == 2 {
							close(begun)
						}
						<-release
					})
				}
				if abort {
					c.Abort(nil)
				}
				return nil
			})
			returned.Store(true)
			over <- err
		}()
		<-begun
		require.True(t, context.Cause(t.Context()) == nil)
		_, err := pending.Wait(context.Background())
		require.ErrorIs(t, err, ErrAborted)
		require.False(t, stopAfter(), "it is under way")
		for range 1000 {
			runtime.Gosched()
		}
		require.False(t, returned.Load())
		close(release)
		err = <-over
		if abort {
			require.EqualError(t, err, "comm: rank 0: aborted without a reason")
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, int32(2), called.Load())
		require.Zero(t, stopped.Load())
		require.False(t, stopAfter())
	}
}

// A function that AtEnd gets after the end of the run is called at once.
func TestAtEndOfWhatHasEnded(t *testing.T) {
	var kept *Comm
	require.NoError(t, Run(t.Context(), Config{}, func(c *Comm) error { kept = c; return nil }))
	called := make(chan struct{})
	kept.AtEnd(func() { close(called) })
	<-called
}
