//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// knockSpin is how many times a sender looks whether somebody begins to look, before it wakes the peer's sleeper: half a microsecond, or a
// quarter of what waking costs. Ranks that talk to each other look all the time, but for moments.
const knockSpin = 500

// A poll looks so many times if there is nothing, since a look costs less than to come again. patientLooks is
// for callers that would come at once.
const looks, patientLooks = 4, 24

// group counts goroutines.
type group = sync.WaitGroup

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

// signal is something that happens once.
type signal struct{ ch chan struct{} }

func newSignal() signal { return signal{make(chan struct{})} }

// set says that it has happened. One goroutine does.
func (s *signal) set() { close(s.ch) }

// wait waits for it.
func (s *signal) wait(d deadline) { d.await(s.ch) }

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
