// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/fabric/inproc"
	"weft/internal/waits"
)

// A deadlock ends the run, and the error lists what each rank waits for, in which call, and where.
func TestDeadlock(t *testing.T) {
	checkOften(t)
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
	require.Regexp(t, `^rank 0 waits in Recv at \S*deadlock_test\.go:28, for: Recv from rank 1, tag 5,`, d.Ranks[0])
	require.Regexp(t, `^rank 1 waits in Send at \S*deadlock_test\.go:31, for: Send of 524288 bytes to rank 0, tag 6,`, d.Ranks[1])
	require.Regexp(t, `^rank 2 waits in Barrier at \S*deadlock_test\.go:33, for: rank 0 in barrier number 1,`, d.Ranks[2])
	require.Equal(t, "rank 3 has returned", d.Ranks[3])
	requireNoRankGoroutines(t)
}

// certain inspects the run, and reports whether it has found a deadlock for sure.
func certain(w *world) (yes bool) {
	waits.Service(func() { // as the detector's goroutine
		found := (*deadlockHost)(w).Inspect()
		yes = found != nil && found.Certain
	})()
	return yes
}

// A run that may go on is no deadlock, until it cannot go on any more.
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
			for pending := w.pending(); len(pending) < 2; pending = w.pending() {
				runtime.Gosched()
			}
			for range 50 {
				require.False(t, certain(w))
				if name == "a deadline may end it" {
					waits.Service(func() { assert.Nil(t, (*deadlockHost)(w).Inspect(), "not even a suspicion") })()
				}
				runtime.Gosched()
			}
			close(hold)
			cancel()
			for !certain(w) {
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

// Ranks that go on are never called a deadlock, whatever call they wait in: a census that finds all
// asleep is taken again and again meanwhile.
func TestNoDeadlockHammer(t *testing.T) {
	const rounds = 300
	found := make(chan int)
	stop := make(chan struct{})
	var w atomic.Pointer[world]
	go waits.Service(func() {
		n := 0
		for {
			select {
			case <-stop:
				found <- n
				return
			default:
			}
			if w := w.Load(); w != nil && certain(w) {
				n++
			}
			runtime.Gosched()
		}
	})()
	err := Run(context.Background(), Config{Ranks: 3, DeadlockWarnings: -1}, func(c *Comm) error {
		w.Store(c.world)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		next, before := (c.Rank()+1)%3, (c.Rank()+2)%3
		x, y := make([]int, 1), make([]int, 1)
		for i := range rounds {
			var err error
			switch i % 6 {
			case 0:
				_, err = c.Sendrecv(Of(x), next, i, Of(y), before, i)
			case 1:
				r := c.Irecv(Of(y), before, i)
				if err = c.Ssend(Of(x), next, i); err == nil {
					_, err = r.Wait(ctx)
				}
			case 2:
				err = c.Allreduce(Of(x), Of(y), Sum)
			case 3:
				err = c.Ibarrier().waitFor(ctx)
			case 4:
				if c.Rank() == 0 {
					time.Sleep(time.Millisecond) // the others wait for a rank that a timer wakes
				}
				err = c.Barrier()
			case 5:
				r := c.Isend(Of(x), next, i)
				if _, err = c.Probe(before, i); err == nil {
					_, err = c.Recv(Of(y), before, i)
				}
				if _, _, werr := WaitAny(context.Background(), r); err == nil {
					err = werr
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	require.NoError(t, err)
	require.Zero(t, <-found)
}

func (r *Request) waitFor(ctx context.Context) error {
	_, err := r.Wait(ctx)
	return err
}

// Without a Logger, the standard error gets the report of a run that waits for a goroutine of the
// program, within seconds.
func TestSuspicionIsReported(t *testing.T) {
	checkOften(t)
	said, release := &syncWriter{some: make(chan string, 1)}, make(chan struct{})
	defer func(w io.Writer) { stderr = w }(stderr)
	stderr = said
	go func() {
		text := <-said.some
		if strings.Contains(text, "rank 0 waits in Recv at ") && strings.Contains(text, "TestSuspicionIsReported") {
			close(release)
		}
	}()
	require.NoError(t, Run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
		if c.Rank() == 0 {
			go func() {
				<-release
				_ = c.Send(Of([]byte{1}), 1, 0)
				_ = c.Send(Of([]byte{1}), 0, 0)
			}()
		}
		_, err := c.Recv(Of(make([]byte, 1)), AnySource, 0)
		return err
	}))
}

// syncWriter passes each write to a channel.
type syncWriter struct{ some chan string }

func (w *syncWriter) Write(p []byte) (int, error) {
	w.some <- string(p)
	return len(p), nil
}
