//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

// #include "engine.h"
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"slices"
	"strings"
	"syscall"

	"weft/internal/waits"
)

// startWatch starts the watch, a thread of C that calls the functions below. A goroutine that
// sleeps in C would hold one of Go's Ps at each sleep, until the runtime takes the P away. The
// runtime checks for that every 20 µs, and wakes a thread each time.
func (e *Endpoint) startWatch() {
	if errno := C.weft_watch(e.c, C.uintptr_t(cgo.NewHandle(e)), C.uint64_t(e.maxSleep)); errno != 0 {
		panic(fmt.Sprintf("mpi: a thread cannot be started: %v", syscall.Errno(errno)))
	}
}

// weftWatchFound is called by the watch, with the MPI lock: the report has events, or operations
// are queued. It does the operations and releases the lock. The events are left to the goroutine
// that has the turn; if none has it, this thread takes the turn.
//
//export weftWatchFound
func weftWatchFound(h C.uintptr_t) {
	e := cgo.Handle(h).Value().(*Endpoint)
	// C has taken the lock. The load tells the race detector that the previous holder's writes
	// happened before.
	e.s.lock.Load()
	some := e.report.n > 0
	e.unlock()
	if some && e.progress != nil {
		e.progress.Ring(e)
	}
}

// weftWatchEnded is the last call of the watch.
//
//export weftWatchEnded
func weftWatchEnded(h C.uintptr_t) {
	e := cgo.Handle(h).Value().(*Endpoint)
	cgo.Handle(h).Delete()
	go waits.Service(e.release)()
}

// lockHolders are the functions that have the MPI lock and call functions of other packages.
var lockHolders = []string{".(*Endpoint).handleEvents", ".(*Endpoint).do", ".(*Endpoint).lose", ".(*Endpoint).callDone"}

// hasLock reports whether this goroutine has the MPI lock. It searches the goroutine's stack for
// lockHolders, so it is called only if the lock is taken.
func hasLock() bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(2, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 4*len(pcs))
		n = runtime.Callers(2, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if name, ours := strings.CutPrefix(f.Function, "weft/internal/fabric/mpi"); ours && slices.Contains(lockHolders, name) {
			return true
		}
		if !more {
			return false
		}
	}
}
