//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"os"
	"time"

	"weft/internal/shmem"
	"weft/internal/xatomic"
)

// knockSpin is small, so that what happens behind it is reached.
const knockSpin = 1

const looks, patientLooks = 1, 1

// group counts goroutines.
type group struct{ n xatomic.Int32 }

func (g *group) Go(f func()) {
	g.n.Add(1)
	xatomic.Go(func() {
		f()
		g.n.Add(-1)
	})
}

func (g *group) Wait() {
	for g.n.Load() != 0 {
		xatomic.Pause()
	}
}

// deadline does not end: what takes for ever is to be found.
type deadline struct{}

func newDeadline(time.Duration) deadline { return deadline{} }
func (deadline) await(<-chan struct{})   { panic("there are no transfers") }

type signal struct{ v xatomic.Bool }

func newSignal() signal { return signal{} }

func (s *signal) set() {
	if s.v.Swap(true) {
		panic("it happens twice")
	}
}

func (s *signal) wait(deadline) {
	for !s.v.Load() {
		xatomic.Pause()
	}
}

// bell is a pipe: it counts, since a channel of the explorer has room for one.
type bell struct {
	bytes xatomic.Int32
	some  xatomic.Chan[struct{}] // full if there are bytes that nobody is about to take
	rings int                    // for tests: all
	most  int32                  // and the most bytes at once
}

func newBell() (*bell, error) { return &bell{some: make(xatomic.Chan[struct{}], 1)}, nil }

func (b *bell) wait() error {
	b.some.Recv()
	if b.bytes.Add(-1) > 0 {
		b.some.Send(struct{}{})
	}
	return nil
}

func (b *bell) ring() {
	b.rings++
	n := b.bytes.Add(1)
	b.most = max(b.most, n)
	if n == 1 {
		b.some.Send(struct{}{})
	}
}

func (b *bell) descriptor() uintptr { return 0 }
func (b *bell) close() error        { return nil }

// rope says to a test what becomes of it.
type rope struct {
	b     *bell
	pulls func(ring func()) // calls ring
	ends  func()            // it is closed
}

func (r rope) ring()  { r.pulls(r.b.ring) }
func (r rope) close() { r.ends() }

// reachable is how a test connects endpoints.
var reachable func(p *peer) (*inbox, rope)

var errUnreachable = errors.New("there is nobody")

func (p *peer) reach() error {
	p.box, p.rope = reachable(p)
	if p.box == nil {
		return errUnreachable
	}
	return nil
}

// watchProcess leaves it to the test to say who has died.
func (p *peer) watchProcess() {}

// makeInbox makes an inbox in the memory of the process.
func makeInbox(n int) (*inbox, *os.File, error) {
	_, _, end := place(n)
	return newInbox(shmem.Heap(end), n), nil, nil
}

// of returns the inbox as another rank has mapped it.
func (b *inbox) of(src int) *inbox {
	in := b.incoming(src)
	return &inbox{mem: b.mem, ring: in.data, head: b.head}
}

func prefault([]byte) {}

func (b *inbox) unmap() {}
