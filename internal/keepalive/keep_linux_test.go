// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The kernel has got the times, in its units.
func TestKeep(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	Enable(c, 40*time.Second)
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for option, want := range map[int]int{tcpUserTimeout: 32000, syscall.TCP_KEEPIDLE: 10, syscall.TCP_KEEPINTVL: 5, syscall.TCP_KEEPCNT: 5} {
			got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option)
			require.NoError(t, err)
			require.Equal(t, want, got, "option %d", option)
		}
	}))
	a, b := net.Pipe()
	Enable(a, 0) // not TCP
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}
