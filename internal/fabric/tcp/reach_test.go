// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
)

// front listens, and calls serve with the k-th connection, counted from 0. It returns its address.
func front(t *testing.T, serve func(c net.Conn, k int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for k := 0; ; k++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				serve(c, k)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// silent reads from a connection, and writes nothing.
func silent(c net.Conn, _ int) { _, _ = io.Copy(io.Discard, c) }

// pass connects c with an address. cut copies the bytes of each direction.
func pass(c net.Conn, addr string, cut func(to io.Writer, from io.Reader)) {
	up, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer up.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{up, c}, {c, up}} {
		both.Go(func() {
			cut(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// crumbs copies bytes in pieces of 1 byte, 2 bytes, and so on up to 97, so that heads and data are
// cut everywhere.
func crumbs(to io.Writer, from io.Reader) {
	buf := make([]byte, 1<<12)
	for n := 0; ; n++ {
		k := 1 + n%97
		if n%16 == 15 {
			k = len(buf)
		}
		m, err := from.Read(buf[:k])
		if _, wrong := to.Write(buf[:m]); err != nil || wrong != nil {
			return
		}
	}
}

// Frames and transfers that arrive in small pieces are delivered as they were sent.
func TestCrumbs(t *testing.T) {
	for name, conf := range map[string]*tls.Config{"plain": nil, "TLS": testTLS(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var eps []*Endpoint
			opened := make(chan struct{})
			fronts := make([]string, 2)
			for r := range fronts {
				fronts[r] = front(t, func(c net.Conn, _ int) { <-opened; pass(c, eps[r].Addr(), crumbs) })
			}
			eps = openAll(t, 2, func(c *Config) {
				c.TLS = conf
				c.Lookup = func(_ context.Context, peer int) (string, error) { return fronts[peer], nil }
			})
			close(opened)
			fabrictest.Crumbs(t, asFabric(eps), func() {})
		})
	}
}

// A rank is reached by any of its addresses that leads to it, and the addresses are tried again as
// often as Retry says. Otherwise the error has the error of each address.
func TestAddressesAndRetries(t *testing.T) {
	refused := func(t *testing.T) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	deaf := func(t *testing.T) string { return front(t, silent) }
	for name, row := range map[string]struct {
		// addresses that lead nowhere, before the one that reaches the rank
		before  []func(*testing.T) string
		without bool // no address reaches the rank
		// number of connections that are cut before the first answer
		fails   int
		retry   int
		reached bool
	}{
		"one":                     {reached: true},
		"the second":              {before: []func(*testing.T) string{refused}, reached: true},
		"after a silent one":      {before: []func(*testing.T) string{deaf}, reached: true},
		"after both":              {before: []func(*testing.T) string{refused, deaf}, reached: true},
		"none":                    {before: []func(*testing.T) string{refused, refused}, without: true},
		"none, again":             {before: []func(*testing.T) string{refused}, without: true, retry: 2},
		"cut once":                {fails: 1},
		"cut once, with a retry":  {fails: 1, retry: 1, reached: true},
		"cut twice, with a retry": {fails: 2, retry: 1},
		"cut and retried 3 times": {fails: 3, retry: 3, reached: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var eps []*Endpoint
			var tries atomic.Int32
			opened := make(chan struct{})
			var addrs []string
			for _, make := range row.before {
				addrs = append(addrs, make(t))
			}
			if !row.without {
				addrs = append(addrs, front(t, func(c net.Conn, k int) {
					<-opened
					if tries.Add(1); k >= row.fails {
						pass(c, eps[1].Addr(), func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) })
					}
				}))
			}
			eps = openAll(t, 2, func(c *Config) {
				c.Retry = row.retry
				c.Lookup = func(context.Context, int) (string, error) { return strings.Join(addrs, ","), nil }
			})
			close(opened)
			cs := bindAll(eps)
			require.NoError(t, eps[0].Send(1, fabric.Frame{Data: []byte("x")}))
			if row.reached {
				eventually(t, func() bool { return cs[1].n.Load() == 1 })
				require.EqualValues(t, row.fails+1, tries.Load())
				require.Empty(t, cs[0].lost)
				return
			}
			require.Equal(t, 1, <-cs[0].lost)
			err := cs[0].errors()[0]
			require.ErrorContains(t, err, "connecting to rank 1")
			if row.without {
				for _, a := range addrs {
					require.ErrorContains(t, err, a)
				}
			} else {
				require.EqualValues(t, row.retry+1, tries.Load())
			}
			require.Error(t, eps[0].Send(1, fabric.Frame{}))
		})
	}
}

// A handshake that stops halfway ends after DialTimeout, on either side, with and without TLS, or
// as soon as the endpoint closes.
func TestHalfHandshakes(t *testing.T) {
	const limit = 300 * time.Millisecond
	hello := fmt.Appendf(nil, "%s\x03\x00\x00\x00\x01\x00\x00\x00%032d", magic, 0)
	require.Len(t, hello, helloSize)
	var finish []func()
	for name, conf := range map[string]*tls.Config{"plain": nil, "TLS": testTLS(t)} {
		for _, says := range []int{0, 1, 4, helloSize - 1, helloSize, helloSize + 31} {
			for _, closes := range []bool{false, true} {
				row := fmt.Sprintf("%s, %d bytes, closes %t", name, says, closes)
				words := append(append([]byte(nil), hello...), make([]byte, 64)...)[:says]
				reached := make(chan struct{}, 1)
				addr := front(t, func(c net.Conn, _ int) {
					_, _ = c.Write(words)
					reached <- struct{}{}
					silent(c, 0)
				})
				c := newCollect()
				cfg := Config{Size: 2, Secret: testSecret, TLS: conf, DialTimeout: limit, Linger: time.Millisecond,
					Lookup: func(context.Context, int) (string, error) { return addr, nil }}
				if closes {
					cfg.DialTimeout = time.Hour
				}
				e, err := New(cfg)
				require.NoError(t, err)
				t.Cleanup(func() { _ = e.Close() })
				bind(e, c)
				unproved, err := net.Dial("tcp", e.Addr())
				require.NoError(t, err)
				t.Cleanup(func() { _ = unproved.Close() })
				_, err = unproved.Write(words)
				require.NoError(t, err)
				ended := make(chan error, 1)
				e.Expect(1, 1, make([]byte, 1), func(err error) { ended <- err })
				require.NoError(t, e.Send(1, fabric.Frame{}))
				<-reached
				finish = append(finish, func() {
					if closes {
						require.NoError(t, e.Close(), row)
					} else {
						require.Equal(t, 1, <-c.lost, row)
					}
					require.Error(t, <-ended, row)
					require.NoError(t, unproved.SetReadDeadline(time.Now().Add(20*time.Second)))
					_, err = io.Copy(io.Discard, unproved)
					var late net.Error
					require.False(t, errors.As(err, &late) && late.Timeout(), "%s: the unproved connection is still open", row)
					require.Error(t, e.Send(1, fabric.Frame{}), row)
					require.LessOrEqual(t, len(c.lost), 1, row)
				})
			}
		}
	}
	time.Sleep(limit) // for all cases together
	for _, f := range finish {
		f()
	}
}

// A rank that Serves refuses cannot connect; others can.
func TestServes(t *testing.T) {
	eps := openAll(t, 3, func(c *Config) {
		if c.Rank == 0 {
			c.Serves = func(rank int) bool { return rank == 2 }
		}
	})
	cs := bindAll(eps)
	require.NoError(t, eps[1].Send(0, fabric.Frame{}))
	require.NoError(t, eps[2].Send(0, fabric.Frame{}))
	require.Equal(t, 0, <-cs[1].lost)
	eventually(t, func() bool { return cs[0].n.Load() == 1 })
	require.Empty(t, cs[2].lost)
	require.Empty(t, cs[0].lost)
}
