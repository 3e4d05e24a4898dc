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

// idleConnections connects so many times, and says nothing.
func idleConnections(t *testing.T, addr string, n int) {
	for range n {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
}

// Connections that prove nothing do not keep a rank out.
func TestIdleStrangersGiveWay(t *testing.T) {
	for name, conf := range map[string]*tls.Config{"plain": nil, "TLS": testTLS(t)} {
		t.Run(name, func(t *testing.T) {
			eps := openAll(t, 2, func(c *Config) { c.Retry, c.TLS = env.DefaultRetry, conf })
			cs := bindAll(eps)
			idleConnections(t, eps[1].addrs[0], 2*maxStrangers)
			require.NoError(t, eps[0].Send(1, fabric.Frame{}))
			eventually(t, func() bool { return cs[1].n.Load() == 1 })
			require.Empty(t, cs[0].lost)
		})
	}
}

// Connections that prove nothing may not begin anything: they do not keep a deadlock from being
// certain.
func TestIdleStrangersAreNotForeign(t *testing.T) {
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

// Ranks that all connect at the same time do not crowd each other out, though they are more than
// there is room for.
func TestManyRanksConnectAtOnce(t *testing.T) {
	const n = 4 * maxStrangers
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
	_ = e.Close() // none of them says goodbye
}

func noLookup(context.Context, int) (string, error) { return "", errors.New("nobody is to be found") }
