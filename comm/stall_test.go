// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/inproc"
)

// A deadlock ends the run, and the error says who waits for what, in which call, where.
func TestDeadlock(t *testing.T) {
	err := Run(context.Background(), Config{Ranks: 4}, func(c *Comm) error {
		switch c.Rank() {
		case 0:
			_, err := c.Recv(Of(make([]int, 1)), 1, 5)
			return err
		case 1:
			return c.Send(Of(make([]int, 1<<16)), 0, 6)
		case 2:
			return c.Barrier()
		}
		return nil
	})
	require.ErrorIs(t, err, ErrDeadlock)
	var d *DeadlockError
	require.ErrorAs(t, err, &d)
	require.Len(t, d.Ranks, 4)
	require.Regexp(t, `^rank 0 waits in Recv at \S*stall_test\.go:22, for: Recv from rank 1, tag 5,`, d.Ranks[0])
	require.Regexp(t, `^rank 1 waits in Send at \S*stall_test\.go:25, for: Send of 524288 bytes to rank 0, tag 6,`, d.Ranks[1])
	require.Regexp(t, `^rank 2 waits in Barrier at \S*stall_test\.go:27, for: rank 0 in barrier number 1,`, d.Ranks[2])
	require.Equal(t, "rank 3 has returned", d.Ranks[3])
	requireNoRankGoroutines(t)
}

// What may go on is no deadlock, until it cannot any more.
func TestNoDeadlock(t *testing.T) {
	forever := func(c *Comm) error { _, err := c.Recv(Buffer{}, 1-c.Rank(), 9); return err }
	for name, body := range map[string]func(ctx context.Context, c *Comm, hold chan struct{}) error{
		"another goroutine may send": func(ctx context.Context, c *Comm, hold chan struct{}) error {
			if c.Rank() == 0 {
				go func() { <-hold }()
			}
			return forever(c)
		},
		"a deadline may end it": func(ctx context.Context, c *Comm, hold chan struct{}) error {
			if c.Rank() == 1 {
				return forever(c)
			}
			if _, err := c.Irecv(Buffer{}, 1, 9).Wait(ctx); err == nil {
				return errTest
			}
			return forever(c)
		},
		"a rank computes": func(ctx context.Context, c *Comm, hold chan struct{}) error {
			if c.Rank() == 0 {
				c.Irecv(Buffer{}, 1, 8)
				<-hold
			}
			return forever(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Ranks: 2, DeadlockWarnings: -1}
			_, err := cfg.validate()
			require.NoError(t, err)
			eps, err := inproc.New(2)
			require.NoError(t, err)
			w := newWorld(context.Background(), cfg, eps)
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			hold, over := make(chan struct{}), make(chan error, 1)
			go func() {
				over <- w.run(context.Background(), func(c *Comm) error { return body(ctx, c, hold) })
			}()
			s := &stalls{w: w}
			for pending := w.pending(); len(pending[0]) == 0 || len(pending[1]) == 0; pending = w.pending() {
				runtime.Gosched()
			}
			for range 50 {
				require.Nil(t, s.look())
				runtime.Gosched()
			}
			close(hold)
			cancel()
			for s.look() == nil {
				runtime.Gosched()
			}
			w.end(errTest)
			require.ErrorIs(t, <-over, errTest)
		})
	}
}

func TestDeadlockSettings(t *testing.T) {
	for value, want := range map[string]int{"": 0, "0": 0, "3": 3, "-1": -1} {
		t.Setenv(EnvDeadlock, value)
		var cfg Config
		_, err := cfg.validate()
		require.NoError(t, err)
		require.Equal(t, want, cfg.DeadlockWarnings)
	}
	for _, bad := range []string{"-2", "x", "1.5"} {
		t.Setenv(EnvDeadlock, bad)
		var cfg Config
		_, err := cfg.validate()
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, EnvDeadlock)
	}
}
