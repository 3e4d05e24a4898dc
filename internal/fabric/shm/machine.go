//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leaveAfter is how many times what has come meanwhile is delivered by one who ends looking.
	leaveAfter = 4
	// knockSpin is how many times a sender looks whether somebody begins to look, before it wakes the peer's sleeper: half a microsecond, or a
	// quarter of what waking costs. Ranks that talk to each other look all the time, but for moments.
	knockSpin = 500
	// wantFor is how many times one asks the sleeper to make way.
	wantFor = 1000
)

// The words that goroutines and processes share. In builds for exploration they are those of package xatomic.
type (
	bit    = atomic.Bool
	count  = atomic.Int32
	word32 = atomic.Uint32
	word64 = atomic.Uint64
	mutex  = sync.Mutex
	group  = sync.WaitGroup
)

// woke reports whether there is something in the channel of a goroutine that looks while it waits for that.
func woke(ch <-chan struct{}) bool { return len(ch) > 0 }

// patience ends some time after it was asked first.
type patience struct{ until time.Time }

// over reports whether the time has passed since the first call.
func (p *patience) over(after time.Duration) bool {
	at := now()
	if p.until.IsZero() {
		p.until = at.Add(after)
	}
	return at.After(p.until)
}

// What takes time, which tests have pass by steps. pause is called where another goroutine of this
// process is about to do something.
var (
	now   = time.Now
	rest  = giveWay
	pause = runtime.Gosched
)

// deadline bounds several waits.
type deadline struct{ t *time.Timer }

func newDeadline(d time.Duration) deadline { return deadline{time.NewTimer(d)} }

// await waits until ch is closed, unless time is over.
func (d deadline) await(ch <-chan struct{}) {
	select {
	case <-ch:
	case <-d.t.C:
		d.t.Reset(0) // for the others
	}
}

// pause waits a moment, and reports whether there is time left.
func (d deadline) pause() bool {
	select {
	case <-d.t.C:
		return false
	case <-time.After(10 * time.Microsecond):
		return true
	}
}

// signal is something that happens once.
type signal struct{ ch chan struct{} }

func newSignal() signal { return signal{make(chan struct{})} }

// set says that it has happened. One goroutine does.
func (s *signal) set() { close(s.ch) }

// wait waits for it.
func (s *signal) wait(d deadline) { d.await(s.ch) }

// giveWay gives up the processor to another process, and before to a goroutine of this one if it is
// to: that is rarely needed where Go has other processors, and wakes one of them each time, perhaps
// at the cost of the very process that is waited for.
func giveWay(here bool) {
	if here {
		runtime.Gosched()
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
