// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spreadServer returns the launcher of a job with ranks on other machines.
func spreadServer(t *testing.T, ranks, elsewhere int) (*Server, *Key) {
	key := Key(newSecret())
	s := newTestServer(t, ServerConfig{Ranks: ranks, Elsewhere: elsewhere, Listen: "127.0.0.1:0", Key: &key})
	return s, &key
}

func testRelay(t *testing.T, addr string, key *Key, ranks int) (*Relay, error) {
	r, err := JoinJob(context.Background(), RelayConfig{
		Addr: addr, Key: key, Ranks: ranks, First: -1, Wait: time.Minute, bases: []string{shortDir(t)},
		OnAbort: func(*Abort) {}, OnSignal: func(int) {}, OnKill: func() {}, OnOver: func(int) {}, OnLost: func(error) {},
	})
	if err == nil {
		t.Cleanup(func() { _ = r.Close() })
	}
	return r, err
}

// Idle connections keep out neither a launcher nor its ranks.
func TestIdleConnectionsAreEvicted(t *testing.T) {
	s, key := spreadServer(t, 2, 1)
	idle := func() {
		for range maxUnproved + 50 {
			c, err := net.Dial("tcp", s.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	idle()
	r, err := testRelay(t, s.Addr(), key, 1)
	require.NoError(t, err)
	idle()
	c, err := r.Identity(r.First()).Join(context.Background())
	require.NoError(t, err)
	require.NoError(t, c.Leave())
}

// fickle returns the address of a proxy to addr. It closes each of the first connections after so
// many bytes from addr, and before a proof has reached addr. It passes the others on.
func fickle(t *testing.T, addr string, first int, after int64) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var n atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer up.Close()
				if int(n.Add(1)) <= first {
					go func() { _, _ = io.CopyN(up, c, 1+helloSize+8) }()
					_, _ = io.CopyN(c, up, after)
					return
				}
				go func() { _, _ = io.Copy(up, c) }()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return l.Addr().String()
}

// A launcher and a rank whose connections are evicted try again.
func TestEvictedPeersRetry(t *testing.T) {
	for what, after := range map[string]int64{"before the hello": 0, "in the hello": 7, "after the hello": helloSize + int64(len(newTestID))} {
		t.Run(what, func(t *testing.T) {
			s, key := spreadServer(t, 2, 1)
			r, err := testRelay(t, fickle(t, s.Addr(), 3, after), key, 1)
			require.NoError(t, err)
			r.cfg.Addr = fickle(t, s.Addr(), 3, min(after, helloSize))
			c, err := r.Identity(r.First()).Join(context.Background())
			require.NoError(t, err)
			require.NoError(t, c.Leave())
		})
	}
}

// A launcher whose connection is evicted just after its proof tries again too.
func TestEvictionAtTheLastMoment(t *testing.T) {
	key := Key(newSecret())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() { // a server whose lobby evicts the first connection
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				done <- err
				return
			}
			secret := Secret(key)
			if _, err = c.Read(make([]byte, 1)); err == nil {
				_, err = Handshake(c, &secret, hostLabel, Acceptor, []byte(newTestID))
			}
			if err == nil && n > 0 {
				f := frame{kind: jobAdmits, rank: 1, code: 2, key: newTestID}
				_, err = c.Write(f.encode())
				_, _ = c.Read(make([]byte, 1)) // until the other end is closed
			}
			_ = c.Close()
			if err != nil || n > 0 {
				done <- err
				return
			}
		}
	}()
	r, err := testRelay(t, l.Addr().String(), &key, 1)
	require.NoError(t, err)
	require.Equal(t, 1, r.First())
	require.NoError(t, r.Close())
	require.NoError(t, <-done)
}

// A launcher with a wrong secret fails soon, and does not retry for ten seconds as an evicted one
// does.
func TestWrongSecretIsReportedSoon(t *testing.T) {
	s, _ := spreadServer(t, 2, 1)
	other := Key(newSecret())
	start := time.Now()
	_, err := testRelay(t, s.Addr(), &other, 1)
	require.ErrorContains(t, err, "the secret files may differ")
	require.Less(t, time.Since(start), handshakeTime/2)
}

// retryHandshake ends with its context.
func TestRetryHandshake(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	err := retryHandshake(ctx, func() error {
		if n++; n == 3 {
			cancel()
		}
		return &cutError{err: io.EOF}
	})
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 3, n)
	mine := errors.New("mine")
	require.Equal(t, mine, retryHandshake(context.Background(), func() error { return mine }))
}
