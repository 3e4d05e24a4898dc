// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/waits"
)

// A goroutine of the program that waits may act later: the run goes on, and the log says, once, who waits for what, and which goroutine that is.
func TestDoubt(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	release := make(chan struct{})
	err := Run(context.Background(), Config{Ranks: 2, Logger: logger, DeadlockWarnings: -1}, func(c *Comm) error {
		if c.Rank() == 0 {
			go func() {
				<-release // which may come, as far as anybody can see
				_ = c.Send(Of([]byte{1}), 1, 0)
				_ = c.Send(Of([]byte{1}), 0, 0)
			}()
			go func() {
				for c.world.activity() < 2 { // both ranks have posted, so nothing happens any more
					runtime.Gosched()
				}
				s := &stalls{w: c.world} // in the place of the one that the run would have, which takes some seconds
				for now := time.Now(); log.Len() == 0; now = now.Add(2 * time.Minute) {
					s.tick(now)
					runtime.Gosched()
				}
				for range 5 {
					s.tick(s.next)
				}
				close(release)
			}()
		}
		_, err := c.Recv(Of(make([]byte, 1)), AnySource, 0)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("level=WARN")), log.String())
	for _, want := range []string{"rank 0 waits in Recv at ", "rank 1 waits in Recv at ", "chan receive", "TestDoubt.func1.1 at ", "doubt_test.go:"} {
		require.Contains(t, log.String(), want)
	}
}

// A rank that has told others that there is doubt tells them when there is none any more: nobody
// asks it again.
func TestDoubtEnds(t *testing.T) {
	hold := make(chan struct{})
	var last *stall
	doubted := false
	err := Run(context.Background(), Config{Ranks: 2, DeadlockWarnings: -1}, func(c *Comm) error {
		if c.Rank() == 0 {
			go func() { <-hold }()
			go waits.Service(func() {
				for c.world.activity() < 2 { // both ranks have posted
					runtime.Gosched()
				}
				s := &stalls{w: c.world, report: func(found *stall) { last = found }}
				now := time.Now()
				tick := func(until func() bool) {
					for n := 0; n < 100 && !until(); n++ {
						now = now.Add(2 * time.Minute)
						s.tick(now)
						runtime.Gosched()
					}
				}
				tick(func() bool { return last != nil })
				doubted = last != nil && !last.certain
				close(hold)
				tick(func() bool { return last == nil || last.certain })
				c.world.end(errTest)
			})()
		}
		_, err := c.Recv(Of(make([]byte, 1)), AnySource, 0)
		return err
	})
	require.ErrorIs(t, err, errTest)
	require.True(t, doubted)
	require.NotNil(t, last)
	require.True(t, last.certain)
}
