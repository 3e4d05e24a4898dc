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

// doorbellSpin is small, so that explorations reach the steps after it.
const doorbellSpin = 1

const pollChecks, patientChecks = 1, 1

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

// deadline never passes: an exploration must find a wait that does not end.
type deadline struct{}

func newDeadline(time.Duration) deadline { return deadline{} }
func (deadline) await(<-chan struct{})   { panic("there are no transfers") }

type signal struct{ v xatomic.Bool }

func newSignal() signal { return signal{} }

func (s *signal) set() {
	if s.v.Swap(true) {
		panic("a signal is set twice")
	}
}

func (s *signal) wait(deadline) {
	for !s.v.Load() {
		xatomic.Pause()
	}
}

// doorbell stands for a pipe. It counts bytes, since a channel of the explorer holds one element.
type doorbell struct {
	bytes xatomic.Int32
	some  xatomic.Chan[struct{}] // full if there are bytes that no goroutine is about to take
	rings int                    // for tests: all calls of ring
	most  int32                  // for tests: the most bytes at one time
}

func newDoorbell() (*doorbell, error) { return &doorbell{some: make(xatomic.Chan[struct{}], 1)}, nil }

func (d *doorbell) wait() error {
	d.some.Recv()
	if d.bytes.Add(-1) > 0 {
		d.some.Send(struct{}{})
	}
	return nil
}

func (d *doorbell) ring() {
	d.rings++
	n := d.bytes.Add(1)
	d.most = max(d.most, n)
	if n == 1 {
		d.some.Send(struct{}{})
	}
}

func (d *doorbell) descriptor() uintptr { return 0 }
func (d *doorbell) close() error        { return nil }

// peerDoorbell reports its use to a test.
type peerDoorbell struct {
	d       *doorbell
	onRing  func(ring func()) // must call ring
	onClose func()
}

func (d peerDoorbell) ring()  { d.onRing(d.d.ring) }
func (d peerDoorbell) close() { d.onClose() }

// reachable is set by tests. It returns the inbox and doorbell of a peer, or no inbox if the peer
// cannot be reached.
var reachable func(p *peer) (*inbox, peerDoorbell)

var errUnreachable = errors.New("the peer is unreachable")

func (p *peer) reach() error {
	p.box, p.doorbell = reachable(p)
	if p.box == nil {
		return errUnreachable
	}
	return nil
}

// watchProcess does nothing: tests call unreachable for a process that dies.
func (p *peer) watchProcess() {}

// makeInbox makes an inbox in the memory of the process.
func makeInbox(n int) (*inbox, *os.File, error) {
	_, _, end := layout(n)
	return newInbox(shmem.Heap(end), n), nil, nil
}

// of returns the inbox as another rank has mapped it.
func (b *inbox) of(src int) *inbox {
	in := b.incoming(src)
	return &inbox{mem: b.mem, ring: in.data, head: b.head}
}

func prefault([]byte) {}

func (b *inbox) unmap() {}
