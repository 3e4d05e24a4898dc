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

// doorbellSpin is how many times a sender loads a doorbell word that is zero before it rings: half
// a microsecond, a quarter of the cost of a wake-up. A rank in an exchange of messages polls almost
// without a break, so its word mostly changes within that time.
const doorbellSpin = 500

// pollChecks is how many times a poll that finds nothing checks for work: a check costs less than
// another poll. patientChecks is for callers that would poll again at once.
const pollChecks, patientChecks = 4, 24

// group counts goroutines.
type group = sync.WaitGroup

// deadline bounds several waits together.
type deadline struct{ t *time.Timer }

func newDeadline(d time.Duration) deadline { return deadline{time.NewTimer(d)} }

// await waits until ch is closed or the deadline has passed.
func (d deadline) await(ch <-chan struct{}) {
	select {
	case <-ch:
	case <-d.t.C:
		d.t.Reset(0) // for the later waits
	}
}

// signal is a flag that is set once and that goroutines wait for.
type signal struct{ ch chan struct{} }

func newSignal() signal { return signal{make(chan struct{})} }

// set sets the flag. It is called once.
func (s *signal) set() { close(s.ch) }

// wait waits until the flag is set or the deadline has passed.
func (s *signal) wait(d deadline) { d.await(s.ch) }

// doorbell is the pipe by which other processes wake the endpoint's doorbell goroutine.
type doorbell struct{ in, out *os.File }

func newDoorbell() (*doorbell, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("shm: a pipe: %w", err)
	}
	return &doorbell{os.NewFile(uintptr(fds[0]), "weft doorbell"), os.NewFile(uintptr(fds[1]), "weft doorbell")}, nil
}

// wait waits until the doorbell is rung. Only the doorbell goroutine calls it.
func (d *doorbell) wait() error {
	var one [1]byte
	_, err := d.in.Read(one[:])
	return err
}

// ring wakes the doorbell goroutine.
func (d *doorbell) ring() { _, _ = d.out.Write([]byte{0}) }

// descriptor returns the descriptor of the pipe's write end, which other processes open.
func (d *doorbell) descriptor() (fd uintptr) {
	// File.Fd would make the descriptor a blocking one.
	if raw, err := d.out.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = n })
	}
	return fd
}

func (d *doorbell) close() error { return errors.Join(d.in.Close(), d.out.Close()) }

// peerDoorbell is the doorbell of another process.
type peerDoorbell struct{ fd int }

func openPeerDoorbell(path string) (peerDoorbell, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return peerDoorbell{-1}, fmt.Errorf("opening %s: %w", path, err)
	}
	return peerDoorbell{fd}, nil
}

func (d peerDoorbell) ring()  { _, _ = unix.Write(d.fd, []byte{0}) }
func (d peerDoorbell) close() { _ = unix.Close(d.fd) }

// makeInbox makes an inbox for n ranks. Its file must stay open as long as peers may connect.
func makeInbox(n int) (*inbox, *os.File, error) {
	_, _, end := layout(n)
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
	_, rings, end := layout(n)
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
		return nil, fmt.Errorf("%s is not the inbox of the address", path)
	}
	if b.ring, err = shmem.Map(f, int64(rings)+int64(src)*ringSize, ringSize, false); err != nil {
		b.unmap()
		return nil, err
	}
	return b, nil
}

// prefault maps the pages of mem now, not at the first messages: 64 small frames fill a page in the
// first lap, and to map a page costs as much as twenty frames.
func prefault(mem []byte) { shmem.Populate(mem, 0, len(mem)) }

func (b *inbox) unmap() {
	_ = shmem.Unmap(b.mem)
	if b.ring != nil {
		_ = shmem.Unmap(b.ring)
	}
}
