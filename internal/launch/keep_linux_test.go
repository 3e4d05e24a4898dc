// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Keep-alive is set, with the configured time, at both ends of all connections between machines.
func TestConnectionsBetweenMachinesAreKept(t *testing.T) {
	key := Key(newSecret())
	s := newTestServer(t, ServerConfig{Ranks: 2, Elsewhere: 1, Listen: "127.0.0.1:0", Key: &key, DeadAfter: 40 * time.Second})
	r, err := JoinJob(t.Context(), RelayConfig{Addr: s.Addr(), Key: &key, Ranks: 1, First: -1, Wait: time.Minute, DeadAfter: 80 * time.Second, bases: []string{shortDir(t)}, OnLost: func(error) {}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	c, err := r.Identity(1).Join(t.Context())
	require.NoError(t, err)
	defer func() { _ = c.Leave() }()
	idle := func(c net.Conn) (seconds int) {
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return 0
		}
		raw, err := tcp.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			seconds, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		}))
		return seconds
	}
	s.mu.Lock()
	host, rank := s.hosts.list[0].k.c, s.conns[1].c
	s.mu.Unlock()
	kept := map[int]int{}
	r.mu.Lock()
	for c := range r.pipes {
		kept[idle(c)]++
	}
	r.mu.Unlock()
	require.Equal(t, []int{10, 10, 20}, []int{idle(host), idle(rank), idle(r.up)})
	require.Equal(t, map[int]int{0: 1, 20: 1}, kept, "the rank's own, and the one to the launcher")
}
