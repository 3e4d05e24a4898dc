//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"weft/internal/race"
	"weft/internal/xatomic"
)

// sleeper is what the holder of a parked slot sleeps on. At most one wake-up is pending: before
// each, the waker has taken the slot off the list of parked slots.
//
// It is an eventfd in the poller of Go's runtime and not a channel. A goroutine that a channel
// wakes runs next on the waker's processor. An idle processor may take it from there only after a
// pause, which is meant to be 3 µs and is some 60 µs on Linux, the slack of its timers. An idle
// processor waits in the poller, and wakes at once (bench task/wake: 10 µs instead of 76). The
// price is a system call for the waker; with a channel it makes one too, to wake the idle
// processor.
type sleeper struct {
	f *os.File
	// instead of f, if no descriptor is left, or with one processor: that is never idle while
	// another goroutine wakes a slot
	ch xatomic.Chan[struct{}]
}

func newSleeper() sleeper {
	if runtime.GOMAXPROCS(0) > 1 && !race.Lint { // the race detector sees the operations of files
		if fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err == nil {
			return sleeper{f: os.NewFile(uintptr(fd), "weft slot")}
		}
	}
	return sleeper{ch: make(xatomic.Chan[struct{}], 1)}
}

// wake ends the sleep under way, or the next one.
func (s *sleeper) wake() {
	if s.f == nil {
		s.ch.Send(struct{}{})
		return
	}
	one := [8]byte{1} // a number that is not zero, in either byte order
	if _, err := s.f.Write(one[:]); err != nil {
		panic("task: bug: waking a slot: " + err.Error())
	}
}

// sleep returns when wake has been called.
func (s *sleeper) sleep() {
	if s.f == nil {
		s.ch.Recv()
		return
	}
	var n [8]byte
	if _, err := s.f.Read(n[:]); err != nil {
		panic("task: bug: a parked slot: " + err.Error())
	}
}

// close closes the descriptor. Precondition: no goroutine sleeps or wakes any more.
func (s *sleeper) close() {
	if s.f != nil {
		_ = s.f.Close()
	}
}
