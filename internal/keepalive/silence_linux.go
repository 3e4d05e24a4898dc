// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is the option TCP_USER_TIMEOUT (since Linux 2.6.37), in milliseconds.
const tcpUserTimeout = 18

func limitSilence(t *net.TCPConn, silence time.Duration) {
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
	})
}
