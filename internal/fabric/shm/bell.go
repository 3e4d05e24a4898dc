//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bell is the pipe by which others wake the endpoint's sleeper.
type bell struct{ in, out *os.File }

func newBell() (*bell, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("shm: a pipe: %w", err)
	}
	return &bell{os.NewFile(uintptr(fds[0]), "weft bell"), os.NewFile(uintptr(fds[1]), "weft bell")}, nil
}

// A ring is a time: the monotonic clock's, which the processes of a node have in common, or zero.
const ringBytes = 8

// wait waits until somebody rings, and says how long ago that was, if it was said. The sleeper.
func (b *bell) wait() (ago time.Duration, err error) {
	var rung [ringBytes]byte
	if _, err = io.ReadFull(b.in, rung[:]); err != nil {
		return 0, err
	}
	if at := binary.NativeEndian.Uint64(rung[:]); at != 0 {
		ago = time.Duration(now() - at)
	}
	return ago, nil
}

// ring wakes the sleeper.
func (b *bell) ring() { _, _ = b.out.Write(make([]byte, ringBytes)) }

// now is the time on the clock of rings.
func now() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

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
		return rope{-1}, fmt.Errorf("shm: opening %s: %w", path, err)
	}
	return rope{fd}, nil
}

func (r rope) ring() {
	var rung [ringBytes]byte
	binary.NativeEndian.PutUint64(rung[:], now())
	_, _ = unix.Write(r.fd, rung[:])
}

func (r rope) close() { _ = unix.Close(r.fd) }
