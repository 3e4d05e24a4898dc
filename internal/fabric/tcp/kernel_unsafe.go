//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the goroutines that poll and write. They are made without telling Go's
// scheduler (RawSyscall).
//
// That is safe, since none of these calls waits, whatever the flags of the descriptor are. A call
// takes as long as the kernel takes for some hundred kilobytes. Meanwhile this P of Go's scheduler
// runs nothing else, and a garbage collection waits for the call as for any loop of that length.
//
// It is needed: during an ordinary system call, Go's monitor checks every 20 µs whether the call
// still lasts. A rank with one processor runs the monitor on that processor. And the monitor may
// give the caller's P to another goroutine while the kernel runs another process.

// epollNow fills events with the ready descriptors of an epoll set, without waiting, and returns
// their number.
func epollNow(set int, events []unix.EpollEvent) int {
	n, _, _ := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	return max(int(n), 0) // -1 is an error, also in the calls below
}

// recvNow reads the bytes that are there, as many as b takes. b is not empty. errno is EAGAIN if
// there are none; n is 0 at the end of the connection.
func recvNow(fd int, b []byte) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	if errno == 0 {
		raceReceive(unsafe.Pointer(&b[0]), int(r))
	}
	return max(int(r), 0), errno
}

// sendNow writes as much of b as there is room for. b is not empty. errno is EAGAIN if there is no
// room.
func sendNow(fd int, b []byte) (n int, errno unix.Errno) {
	raceSend(unsafe.Pointer(&b[0]), len(b))
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return max(int(r), 0), errno
}

// gathering has the arguments of a system call that gathers the parts that it writes.
type gathering struct {
	msg   unix.Msghdr
	parts []unix.Iovec
}

// add adds a part, which is written after the parts that were added before. b is not empty.
func (g *gathering) add(b []byte) {
	raceSend(unsafe.Pointer(&b[0]), len(b))
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	g.parts = append(g.parts, v)
}

// sendNow writes as much of the added parts as there is room for, and removes all parts. There is
// at least one.
func (g *gathering) sendNow(fd int) (n int, errno unix.Errno) {
	g.msg.Iov = &g.parts[0]
	g.msg.SetIovlen(len(g.parts))
	r, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&g.msg)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	clear(g.parts)
	g.parts = g.parts[:0]
	return max(int(r), 0), errno
}
