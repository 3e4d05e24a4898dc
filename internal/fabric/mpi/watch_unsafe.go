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

// startWatch starts the watch, which is a thread of C's and calls the functions below. A goroutine
// that sleeps in C would hold one of Go's processors for each sleep, until the runtime takes it
// away, which looks for that every 20 µs and wakes a thread each time.
func (e *Endpoint) startWatch() {
	if errno := C.weft_watch(e.c, C.uintptr_t(cgo.NewHandle(e)), C.uint64_t(e.longest)); errno != 0 {
		panic(fmt.Sprintf("mpi: a thread cannot be started: %v", syscall.Errno(errno)))
	}
}

// weftWatched is called by the watch with the seat: there are events on the desk, or work is
// queued. The events are for the goroutine that polls; if nobody does, this thread is the one.
//
//export weftWatched
func weftWatched(h C.uintptr_t) {
	e := cgo.Handle(h).Value().(*Endpoint)
	// taken in C: what who had it before has written is seen from here on, and the race detector
	// knows
	e.s.seat.Load()
	some := e.desk.n > 0
	e.rise()
	if some && e.progress != nil {
		e.progress.Ring(e)
	}
}

// weftFaded is the watch's end.
//
//export weftFaded
func weftFaded(h C.uintptr_t) {
	e := cgo.Handle(h).Value().(*Endpoint)
	cgo.Handle(h).Delete()
	go waits.Service(e.fade)()
}

// insiders are the functions that have the seat and call what is not this package's.
var insiders = []string{".(*Endpoint).handle", ".(*Endpoint).do", ".(*Endpoint).lose", ".(*Endpoint).tell"}

// inside says whether this goroutine has the seat. It looks for that in the calls that have led
// here, so it is for when the seat is taken, by this goroutine or another.
func inside() bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(2, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 4*len(pcs))
		n = runtime.Callers(2, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if name, ours := strings.CutPrefix(f.Function, "weft/internal/fabric/mpi"); ours && slices.Contains(insiders, name) {
			return true
		}
		if !more {
			return false
		}
	}
}
