//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
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

// group counts goroutines.
type group = sync.WaitGroup

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

// bell is the pipe by which others wake the endpoint's sleeper.
type bell struct{ in, out *os.File }

func newBell() (*bell, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("shm: a pipe: %w", err)
	}
	return &bell{os.NewFile(uintptr(fds[0]), "weft bell"), os.NewFile(uintptr(fds[1]), "weft bell")}, nil
}

// wait waits until somebody rings. The sleeper.
func (b *bell) wait() error {
	var one [1]byte
	_, err := b.in.Read(one[:])
	return err
}

// ring wakes the sleeper.
func (b *bell) ring() { _, _ = b.out.Write([]byte{0}) }

// descriptor returns what others open.
func (b *bell) descriptor() (fd uintptr) {
	// Fd would make it a blocking one.
	if raw, err := b.out.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = n })
	}
	return fd
}

func (b *bell) close() error { return errors.Join(b.in.Close(), b.out.Close()) }

// rope is the bell of another process.
type rope struct{ fd int }

func openRope(path string) (rope, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return rope{-1}, fmt.Errorf("opening %s: %w", path, err)
	}
	return rope{fd}, nil
}

func (r rope) ring()  { _, _ = unix.Write(r.fd, []byte{0}) }
func (r rope) close() { _ = unix.Close(r.fd) }
