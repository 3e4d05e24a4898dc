// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

// direct writes to a socket without waiting. It is used by one goroutine at a time.
type direct struct {
	raw   syscall.RawConn
	small [headSize + directCopy]byte
	bufs  [2][]byte
	try   func(fd uintptr) bool

	// Set by try.
	n   int
	err error
}

// directCopy is the largest payload that is copied behind its head, rather than gathered by the system call.
const directCopy = 1 << 10

func newDirect(c net.Conn) *direct {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil // TLS
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	d := &direct{raw: raw}
	d.try = func(fd uintptr) bool {
		for {
			if d.bufs[1] == nil {
				d.n, d.err = unix.Write(int(fd), d.bufs[0])
			} else {
				d.n, d.err = unix.Writev(int(fd), d.bufs[:])
			}
			if d.err != unix.EINTR {
				return true
			}
		}
	}
	return d
}

// write returns how much of the frame, with its head, the socket has taken at once.
func (d *direct) write(kind uint32, f *fabric.Frame) (int, error) {
	head := appendHead(d.small[:0], kind, f)
	if len(f.Data) <= directCopy {
		d.bufs[0] = append(head, f.Data...)
	} else {
		d.bufs[0], d.bufs[1] = head, f.Data
	}
	if err := d.raw.Write(d.try); err != nil {
		d.n, d.err = 0, err
	}
	d.bufs = [2][]byte{}
	if d.err != nil {
		if d.err == unix.EAGAIN {
			return 0, nil
		}
		return 0, d.err
	}
	return d.n, nil
}

// limitUnacknowledged has the kernel give up a connection whose data nobody acknowledges.
func limitUnacknowledged(t *net.TCPConn) {
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(DeadAfter.Milliseconds()))
	})
}
