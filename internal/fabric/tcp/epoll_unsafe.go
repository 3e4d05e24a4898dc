//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollNow fills events with what is ready in a set of epoll, without waiting, and returns how many. To Go's scheduler it is no system call: one who
// looks would lose its place to another goroutine when the kernel runs something else meanwhile.
func epollNow(set int, events []unix.EpollEvent) int {
	n, _, err := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if err != 0 {
		return 0
	}
	return int(n)
}
