// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"net"
	"syscall"
)

// limitUnacknowledged has the kernel give up a connection whose data nobody acknowledges. Without it, keep-alive probes notice
// a machine that is gone only if nothing is on its way to it.
func limitUnacknowledged(t *net.TCPConn) {
	const tcpUserTimeout = 18 // since Linux 2.6.37
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(hostSilence.Milliseconds()))
	})
}
