//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the goroutine that polls and of who writes. To Go's scheduler they are none
// (RawSyscall). That is safe, since none of them waits: they are asked not to, whatever the
// descriptor says, and so take as long as the kernel takes for some hundred kilobytes, during which
// this processor of Go's runs nothing else and a collection of garbage waits for it, as for any
// loop of that length. It is needed, since with each proper system call, Go's monitor looks every
// 20 µs whether it lasts, on the processor of a rank that has one only, and may give the caller's
// place to another goroutine while the kernel runs something else.

// epollNow fills events with what is ready in a set of epoll, without waiting, and returns how
// many.
func epollNow(set int, events []unix.EpollEvent) int {
	n, _, _ := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	return max(int(n), 0) // -1 is an error, as for those below
}

// recvNow reads what is there, as far as b, which is not empty, takes it. errno is EAGAIN if there
// is nothing, and n is 0 at the end.
func recvNow(fd int, b []byte) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	if errno == 0 {
		heard(unsafe.Pointer(&b[0]), int(r))
	}
	return max(int(r), 0), errno
}

// sendNow writes as much of b, which is not empty, as there is room for. errno is EAGAIN if there
// is none.
func sendNow(fd int, b []byte) (n int, errno unix.Errno) {
	told(unsafe.Pointer(&b[0]), len(b))
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return max(int(r), 0), errno
}

// gathering is the memory that a system call wants, which gathers what it writes.
type gathering struct {
	msg   unix.Msghdr
	parts []unix.Iovec
}

// add has b, which is not empty, written behind what was added before.
func (g *gathering) add(b []byte) {
	told(unsafe.Pointer(&b[0]), len(b))
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	g.parts = append(g.parts, v)
}

// sendNow writes as much of what was added as there is room for, and forgets it. Something was
// added.
func (g *gathering) sendNow(fd int) (n int, errno unix.Errno) {
	g.msg.Iov = &g.parts[0]
	g.msg.SetIovlen(len(g.parts))
	r, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&g.msg)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	clear(g.parts)
	g.parts = g.parts[:0]
	return max(int(r), 0), errno
}
