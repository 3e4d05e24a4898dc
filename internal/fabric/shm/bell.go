//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"os"

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
