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
				s := &stalls{w: c.world} // in the place of the one that the run would have, which takes a quarter of a minute
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

func TestSummary(t *testing.T) {
	for g, want := range map[string]string{
		"goroutine 7 [select, 2 minutes]:\nnet/http.(*Server).Serve(0x1)\n\t/go/http.go:3 +0x1\nmain.serve(...)\n\t/p/main.go:5 +0x1": "goroutine 7 [select, 2 minutes] main.serve at /p/main.go:5",
		"goroutine 8 [IO wait]:\ninternal/poll.wait(0x1)\n\t/go/poll.go:3 +0x1":                                                       "goroutine 8 [IO wait] internal/poll.wait at /go/poll.go:3",
		"goroutine 9 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:3 +0x1\nexample.com/x.(*T).loop(0x2)\n\t/p/x.go:9 +0x1":                 "goroutine 9 [sleep] example.com/x.(*T).loop at /p/x.go:9",
		"goroutine 9 [sleep]:": "goroutine 9 [sleep]",
	} {
		require.Equal(t, want, summary(g))
	}
}
