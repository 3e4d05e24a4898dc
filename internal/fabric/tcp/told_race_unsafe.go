//go:build linux && race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"runtime"
	"unsafe"
)

// wire stands for all sockets, as in package syscall: what was done before anything was written is
// done before what is read later.
var wire int64

// told tells the race detector that n bytes of memory are read by a system call that writes to a
// socket.
func told(p unsafe.Pointer, n int) {
	runtime.RaceReadRange(p, n)
	runtime.RaceReleaseMerge(unsafe.Pointer(&wire))
}

// heard tells it that n bytes of memory were written by one that reads a socket.
func heard(p unsafe.Pointer, n int) {
	runtime.RaceWriteRange(p, n)
	runtime.RaceAcquire(unsafe.Pointer(&wire))
}
