// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/waits"
)

// idleConnections makes n connections, and sends nothing.
func idleConnections(t *testing.T, addr string, n int) {
	for range n {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
}

// Idle unproved connections do not keep a rank from connecting.
func TestIdleConnectionsAreEvicted(t *testing.T) {
	for name, conf := range map[string]*tls.Config{"plain": nil, "TLS": testTLS(t)} {
		t.Run(name, func(t *testing.T) {
			eps := openAll(t, 2, func(c *Config) { c.Retry, c.TLS = env.DefaultRetry, conf })
			cs := bindAll(eps)
			idleConnections(t, eps[1].addrs[0], 2*maxUnproved)
			require.NoError(t, eps[0].Send(1, fabric.Frame{}))
			eventually(t, func() bool { return cs[1].n.Load() == 1 })
			require.Empty(t, cs[0].lost)
		})
	}
}

// A deadlock can be certain although unproved connections exist: they begin no communication.
func TestUnprovedAreNotForeign(t *testing.T) {
	eps := openAll(t, 2, nil)
	bindAll(eps)
	foreign := func() (n int) {
		waits.Service(func() {
			for c, ok := waits.Take(); ; c, ok = waits.Take() {
				if n = c.Foreign(); ok {
					return
				}
			}
		})()
		return n
	}
	before, goroutines := foreign(), runtime.NumGoroutine()
	idleConnections(t, eps[1].addrs[0], 8)
	eventually(t, func() bool { return runtime.NumGoroutine() >= goroutines+8 })
	require.Equal(t, before, foreign())
}

// Ranks that all connect at the same time do not evict each other's connections, though they are
// more than there is room for.
func TestManyRanksConnectAtOnce(t *testing.T) {
	const n = 4 * maxUnproved
	e, err := New(Config{Size: n + 1, Secret: testSecret, Lookup: noLookup, Linger: time.Millisecond})
	require.NoError(t, err)
	bind(e, newCollect())
	var wg sync.WaitGroup
	errs := make([]error, n)
	for r := range n {
		c, err := net.Dial("tcp", e.addrs[0])
		require.NoError(t, err)
		defer c.Close()
		wg.Go(func() { errs[r] = greet(c, testSecret, 1+r, 0) })
	}
	wg.Wait()
	for r, err := range errs {
		require.NoError(t, err, r)
	}
	_ = e.Close() // no peer sends a closing frame
}

func noLookup(context.Context, int) (string, error) { return "", errors.New("no address is known") }
