// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
)

// between is a connection between two addresses.
type between struct {
	net.Conn
	here, there net.Addr
}

func (b between) LocalAddr() net.Addr  { return b.here }
func (b between) RemoteAddr() net.Addr { return b.there }

func TestIsNear(t *testing.T) {
	for _, row := range []struct {
		here, there string
		want        bool
	}{
		{"127.0.0.1:1", "127.0.0.1:2", true},
		{"127.0.0.1:1", "127.1.2.3:2", true},
		{"[::1]:1", "[::1]:2", true},
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", true},
		{"192.0.2.1:1", "192.0.2.2:2", false},
		{"127.0.0.1:1", "192.0.2.2:2", false},
		{"192.0.2.1:1", "127.0.0.1:2", false},
		{"[2001:db8::1]:1", "[2001:db8::2]:2", false},
	} {
		here, err := net.ResolveTCPAddr("tcp", row.here)
		require.NoError(t, err)
		there, err := net.ResolveTCPAddr("tcp", row.there)
		require.NoError(t, err)
		require.Equal(t, row.want, isNear(between{nil, here, there}), "%s to %s", row.here, row.there)
	}
	a, b := net.Pipe()
	require.False(t, isNear(a))
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	require.False(t, isNear(between{nil, here, a.LocalAddr()}))
	require.False(t, isNear(between{nil, a.LocalAddr(), here}))
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

// Connections within the machine have the options that this machine allows, at both ends, and large
// pieces.
func TestNearIsTuned(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 })
	allowed, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	require.NoError(t, err)
	for i, e := range eps {
		s := e.peers.At(1 - i).polled.Load()
		require.Equal(t, nearPiece, s.p.piece)
		if slices.Contains(strings.Fields(string(allowed)), nearControl) {
			cc, err := unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			require.NoError(t, err)
			require.Equal(t, nearControl, strings.TrimRight(cc, "\x00"))
		}
		silence, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		require.NoError(t, err)
		require.Zero(t, silence, "a rank that is stopped, with much to read, counts as alive")
		for _, row := range []struct{ option, limit int }{
			{unix.SO_SNDBUF, bufferLimits().send}, {unix.SO_RCVBUF, bufferLimits().receive},
		} {
			n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, row.option)
			require.NoError(t, err)
			if row.limit >= nearBuffer {
				require.Equal(t, 2*nearBuffer, n, "the kernel doubles the value")
			} else {
				require.NotEqual(t, 2*row.limit, n, "less than the kernel would grow it to")
			}
		}
	}
}

// A buffer is set only if the machine allows nearBuffer for its direction: less than the kernel
// would grow it to is worse than a buffer that is not set.
func TestBuffersByLimit(t *testing.T) {
	for _, row := range []struct {
		limit         limits
		send, receive bool
	}{
		{limits{nearBuffer, nearBuffer - 1}, true, false},
		{limits{nearBuffer - 1, nearBuffer}, false, true},
		{limits{nearBuffer + 1, nearBuffer + 1}, true, true},
		{limits{}, false, false},
	} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		size := func(option int) int {
			n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
			require.NoError(t, err)
			return n
		}
		send, receive := size(unix.SO_SNDBUF), size(unix.SO_RCVBUF)
		setNear(fd, row.limit)
		require.Equal(t, row.send, size(unix.SO_SNDBUF) != send, "%+v", row)
		require.Equal(t, row.receive, size(unix.SO_RCVBUF) != receive, "%+v", row)
		require.NoError(t, unix.Close(fd))
	}
}

func TestReadLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limit")
	require.Zero(t, readLimit(file))
	for text, want := range map[string]int{"212992\n": 212992, "": 0, "max\n": 0} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.Equal(t, want, readLimit(file), "%q", text)
	}
}

// Sockets that take few bytes at a time cut frames and transfers anywhere; every byte arrives.
func TestNarrowSockets(t *testing.T) {
	eps := openAll(t, 2, nil)
	fabrictest.Crumbs(t, asFabric(eps), func() {
		for i, e := range eps {
			s := e.peers.At(1 - i).polled.Load()
			require.NoError(t, unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
		}
	})
}

// Goroutines that write to one such socket at the same time do not mix their frames.
func TestNarrowSocketsHammer(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	for i, e := range eps {
		require.NoError(t, e.Send(1-i, fabric.Frame{}))
		eventually(t, func() bool { return cs[1-i].n.Load() == 1 })
	}
	for i, e := range eps {
		s := e.peers.At(1 - i).polled.Load()
		require.NoError(t, unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	}
	hammerTransfers(t, eps, 200, 1<<12)
}
