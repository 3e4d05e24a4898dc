//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/shmem"
)

// knockSpin is how many times a sender looks whether somebody begins to look, before it wakes the
// peer's sleeper: half a microsecond, or a quarter of what waking costs. Ranks that talk to each
// other look all the time, but for moments.
const knockSpin = 500

// A poll looks so many times if there is nothing, since a look costs less than to come again.
// patientLooks is for callers that would come at once.
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

// makeInbox makes the memory of an inbox for n ranks. The descriptor must stay open while others
// may come.
func makeInbox(n int) (*inbox, *os.File, error) {
	_, _, end := place(n)
	f, err := shmem.Create("weft inbox", end)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: %w", err)
	}
	mem, err := shmem.Map(f, 0, end, false)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: %w", errors.Join(err, f.Close()))
	}
	b := newInbox(mem, n)
	_, _ = rand.Read(b.head.token[:]) // never fails
	return b, f, nil
}

// openInbox maps the parts of another rank's inbox that the sender src needs.
func openInbox(path string, n, src int, token [16]byte) (*inbox, error) {
	_, rings, end := place(n)
	f, err := shmem.Open(path, end)
	if err != nil {
		return nil, fmt.Errorf("the inbox of a run of %d ranks: %w", n, err)
	}
	defer func() { _ = f.Close() }()
	mem, err := shmem.Map(f, 0, rings, false)
	if err != nil {
		return nil, err
	}
	b := &inbox{mem: mem, head: shmem.View[inboxHead](mem, 0)}
	if b.head.magic != magic || b.head.size != uint64(n) || b.head.token != token {
		b.unmap()
		return nil, fmt.Errorf("%s is not the inbox that was named", path)
	}
	if b.ring, err = shmem.Map(f, int64(rings)+int64(src)*ringSize, ringSize, false); err != nil {
		b.unmap()
		return nil, err
	}
	return b, nil
}

// prefault has the kernel map the memory now, and not when messages come: there is a page for every
// 64 small frames of the first lap, and each costs as much as twenty frames.
func prefault(mem []byte) { shmem.Populate(mem, 0, len(mem)) }

func (b *inbox) unmap() {
	_ = shmem.Unmap(b.mem)
	if b.ring != nil {
		_ = shmem.Unmap(b.ring)
	}
}
