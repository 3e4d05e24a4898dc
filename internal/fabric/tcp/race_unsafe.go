//go:build linux && race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"runtime"
	"unsafe"
)

// wire stands for all sockets, as in package syscall: every write to a socket happens before every
// later read from one.
var wire int64

// raceSend tells the race detector that a system call reads n bytes of memory and writes them to a
// socket.
func raceSend(p unsafe.Pointer, n int) {
	runtime.RaceReadRange(p, n)
	runtime.RaceReleaseMerge(unsafe.Pointer(&wire))
}

// raceReceive tells the race detector that a system call has read n bytes from a socket and written
// them to memory.
func raceReceive(p unsafe.Pointer, n int) {
	runtime.RaceWriteRange(p, n)
	runtime.RaceAcquire(unsafe.Pointer(&wire))
}
