// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// parked returns the number of goroutines that wait in a function of this package itself, such as
// (*Endpoint).dial.
func parked(function string) (n int) {
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		lines := strings.SplitN(g, "\n", 3)
		waits := strings.Contains(lines[0], "[select") || strings.Contains(lines[0], "[chan")
		if len(lines) > 1 && waits && strings.HasPrefix(lines[1], "weft/internal/fabric/tcp."+function+"(") {
			n++
		}
	}
	return n
}

// The verdict on an accepted connection, in each state of the peer, at the lower rank and at the
// higher one.
func TestAdmit(t *testing.T) {
	for _, row := range []struct {
		self, peer int
		state      state
		taken      bool
		want       byte
	}{
		{0, 1, idle, false, accepted},
		{1, 0, idle, false, accepted},
		{0, 1, connecting, false, duplicate}, // this rank's own connection will be used
		{1, 0, connecting, false, accepted},
		{1, 0, connecting, true, duplicate},
		{0, 1, open, false, duplicate},
		{1, 0, open, false, duplicate},
		{1, 0, open, true, duplicate},
		{0, 1, closed, false, 0},
		{1, 0, closed, true, 0},
		{0, 1, lost, true, 0},
		{1, 0, lost, false, 0},
	} {
		p := newPeer(lone(Config{Rank: row.self, Size: 2}, nil), row.peer)
		p.state, p.taken = row.state, row.taken
		require.Equal(t, row.want, p.admit(), "%+v", row)
		if row.want == accepted {
			require.Equal(t, connecting, p.state, "%+v", row)
			require.Equal(t, byte(duplicate), p.admit(), "%+v, again", row)
		} else {
			require.Equal(t, row.state, p.state, "%+v", row)
			require.Equal(t, row.taken, p.taken, "%+v", row)
		}
	}
}

// The answers to a peer that connects. A peer that is lost or closed gets none, so that it does not
// wait for another connection.
func TestAnswersByState(t *testing.T) {
	eps := openAll(t, 4, func(c *Config) {
		if c.Rank == 0 {
			c.Linger = time.Millisecond
			c.Lookup = func(ctx context.Context, _ int) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		}
	})
	c := newCollect()
	bind(eps[0], c)
	connect := func(rank int) (net.Conn, error) {
		conn, err := net.Dial("tcp", eps[0].Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn, greet(conn, testSecret, rank, 0)
	}
	conn, err := connect(1)
	require.NoError(t, err)
	<-eps[0].peers.At(1).opened
	_, err = connect(1)
	require.ErrorIs(t, err, errDuplicate)
	require.NoError(t, eps[0].Send(2, fabric.Frame{}))
	_, err = connect(2)
	require.ErrorIs(t, err, errDuplicate)
	eps[0].Drop(3, io.ErrClosedPipe)
	require.Equal(t, 3, <-c.lost)
	_, err = connect(3)
	require.ErrorIs(t, err, io.EOF)
	_ = conn.Close()
	require.Equal(t, 1, <-c.lost)
	_, err = connect(1)
	require.ErrorIs(t, err, io.EOF)
}

// Both ranks connect, and the lower one has answered "duplicate". Then one of them closes, or both.
// The lower rank's connection is made nevertheless, and frames arrive at the rank that has not
// closed.
func TestCloseWhileConnecting(t *testing.T) {
	for _, closers := range [][]int{{0}, {1}, {0, 1}} {
		t.Run(fmt.Sprint(closers), func(t *testing.T) {
			dials := make(chan struct{})
			var eps []*Endpoint
			eps = openAll(t, 2, func(c *Config) {
				c.Linger = time.Minute
				if c.Rank == 0 {
					c.Lookup = func(context.Context, int) (string, error) { <-dials; return eps[1].Addr(), nil }
				} else {
					c.Lookup = func(context.Context, int) (string, error) { return eps[0].Addr(), nil }
				}
			})
			cs := bindAll(eps)
			require.NoError(t, eps[0].Send(1, fabric.Frame{}))
			require.NoError(t, eps[1].Send(0, fabric.Frame{}))
			// "duplicate" has arrived
			eventually(t, func() bool { return parked("(*Endpoint).dial") == 1 })
			var wg sync.WaitGroup
			ended := make(chan struct{}, 2)
			for _, r := range closers {
				wg.Go(func() { _ = eps[r].Close(); ended <- struct{}{} })
			}
			eventually(t, func() bool { return parked("(*peer).close") == len(closers) })
			close(dials)
			if len(closers) == 1 {
				r := 1 - closers[0]
				eventually(t, func() bool { return cs[r].n.Load() == 1 })
			}
			for r := range eps {
				wg.Go(func() { _ = eps[r].Close() })
			}
			eventually(t, func() bool { return len(ended) == len(closers) })
			wg.Wait()
			require.Empty(t, cs[0].errors())
			require.Empty(t, cs[1].errors())
		})
	}
}

// Ranks send to each other and close at any moment while they connect. They do not wait for as long
// as they would wait for a silent peer.
func TestCloseWhileConnectingHammer(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	conf := testTLS(t)
	for k := range 50 {
		eps := openAll(t, 3, func(c *Config) {
			if c.Linger = time.Minute; k%15 == 0 {
				c.TLS = conf
			}
		})
		bindAll(eps)
		var wg sync.WaitGroup
		for _, e := range eps {
			yields := r.IntN(100)
			wg.Go(func() {
				for d := range eps {
					_ = e.Send(d, fabric.Frame{})
				}
				for range yields {
					runtime.Gosched()
				}
				_ = e.Close()
			})
		}
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		eventually(t, func() bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
	}
}

// The lower rank has answered "duplicate", but never connects: the higher rank waits for
// DialTimeout and Linger, and does not wait if it closes.
func TestPromisedConnectionNeverComes(t *testing.T) {
	for name, closes := range map[string]bool{"waits": false, "closes": true} {
		t.Run(name, func(t *testing.T) {
			said := make(chan struct{}, 1)
			addr := front(t, func(c net.Conn, _ int) {
				_, err := receive(c, testSecret, 0, 2)
				if err == nil {
					_, _ = c.Write([]byte{duplicate})
				}
				said <- struct{}{}
				silent(c, 0)
			})
			cfg := Config{Rank: 1, Size: 2, Secret: testSecret, DialTimeout: 40 * time.Millisecond, Linger: 40 * time.Millisecond,
				Lookup: func(context.Context, int) (string, error) { return addr, nil }}
			if closes {
				cfg.DialTimeout, cfg.Linger = time.Hour, time.Millisecond
			}
			e, err := New(cfg)
			require.NoError(t, err)
			c := newCollect()
			bind(e, c)
			ended := make(chan error, 1)
			require.NoError(t, e.Send(0, fabric.Frame{}))
			e.Push(0, 1, make([]byte, 10), func(err error) {
				if !e.peers.At(0).mu.TryLock() {
					err = errors.New("the peer is locked")
				} else {
					e.peers.At(0).mu.Unlock()
				}
				ended <- err
			})
			<-said
			if closes {
				require.NoError(t, e.Close())
				require.ErrorIs(t, <-ended, fabric.ErrClosed)
				require.Empty(t, c.errors())
				return
			}
			require.Equal(t, 0, <-c.lost)
			require.ErrorContains(t, c.errors()[0], "tcp: connecting to rank 0: its own connection has not arrived")
			require.ErrorIs(t, c.errors()[0], context.DeadlineExceeded)
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
			require.NoError(t, e.Close())
		})
	}
}
