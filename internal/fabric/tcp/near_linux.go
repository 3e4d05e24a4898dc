// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// nearControl is the congestion control of connections that do not leave the machine. There is no congestion, so the plainest will do, which costs
	// least. It matters where the machine's own choice paces what is sent (bbr): the bytes would wait for a clock. Messages of 4 MiB took 1.3 to
	// 1.6 times as long with bbr.
	nearControl = "reno"
	// nearBuffer is how much the kernel holds of what is under way, in each direction and at each end (measured: with 4 MB, messages of 4 MiB took two
	// thirds of the time that they took with what the kernel grows to by itself, since whoever writes is done sooner than the reader).
	nearBuffer = 4_000_000
)

// tuneNear sets what connections within the machine have. What the kernel refuses stays as it is.
func tuneNear(t *net.TCPConn) {
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { setNear(int(fd), bufferLimits()) })
	}
}

func setNear(fd int, limit limits) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, nearControl)
	if limit.send >= nearBuffer {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, nearBuffer)
	}
	if limit.receive >= nearBuffer {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, nearBuffer)
	}
}

// limits are what a program may ask for, in bytes.
type limits struct{ send, receive int }

// bufferLimits reads them. A socket for which less is asked than the kernel would grow to by itself is worse off than one for which nothing is asked: so
// nothing is, where the machine allows less than nearBuffer, as most do that nobody has tuned.
var bufferLimits = sync.OnceValue(func() limits {
	return limits{send: readLimit("/proc/sys/net/core/wmem_max"), receive: readLimit("/proc/sys/net/core/rmem_max")}
})

// readLimit returns the number in a file, 0 if there is none.
func readLimit(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}
