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

// sleeper is where the holder of a slot waits to be woken. It holds one token at most: whoever
// wakes has taken the slot off the list of the parked before.
//
// It is an eventfd in the poller of Go's runtime and not a channel. A goroutine that a channel
// wakes becomes the next one of the waker's processor, from where an idle processor may take it
// only after a pause that is meant to be 3 µs and is some 60 on Linux, where timers have that
// slack. An idle processor waits in the poller, and is up at once (bench task/wake: 10 µs instead
// of 76). The price is a system call for the waker, which a channel makes as well to wake the idle
// processor.
type sleeper struct {
	f *os.File
	// instead of f, if no descriptor is left, or with one processor: none is idle then while
	// another goroutine wakes
	ch xatomic.Chan[struct{}]
}

func newSleeper() sleeper {
	if runtime.GOMAXPROCS(0) > 1 && !race.Lint { // what a file does, the race detector sees
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
	one := [8]byte{1} // eight bytes of one: any number will do in either byte order
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

// close gives the descriptor back. Nobody sleeps or wakes any more.
func (s *sleeper) close() {
	if s.f != nil {
		_ = s.f.Close()
	}
}
