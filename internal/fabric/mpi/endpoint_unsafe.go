//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

// #include "engine.h"
import "C"

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weft/internal/fabric"
)

// shared has the words that Go and C both use. weft_shared in engine.h has the same layout, and the
// meanings.
type shared struct {
	lock, queued, stop, activity, longSleep, sleeps, polled atomic.Uint32
}

// Endpoint is one rank's endpoint.
type Endpoint struct {
	// RingDoorbell is not needed, since Arm never returns SomethingHere; Serve and Work have
	// nothing to do.
	fabric.NoSource

	// Constant after construction.
	process    *Process
	rank, size int
	maxSleep   time.Duration
	c          *C.weft_engine
	number     C.weft_number // c
	report     *C.weft_report
	pin        runtime.Pinner // of s

	handler  fabric.Handler  // set once by Bind, before the first poll
	progress fabric.Progress // likewise; nil if Bind was not called

	_ [64]byte
	s shared
	_ [64]byte

	queue queue

	// Owned by the goroutine or thread that has the MPI lock.
	frame      fabric.Frame // the frame that is being delivered
	todo       *op          // operations taken from the queue, not done yet
	tags       tags
	table      []*op // transfers by number
	free       []uint64
	expects    map[transfer]*op
	others     map[transfer]int // tags of pushes whose tags are not those of their keys
	lost       []error          // by rank: why nothing goes to the rank or comes from it any more
	peerClosed []bool           // by rank: its closing message has arrived
	// number of peers that have not sent a closing message and are not lost
	peersOpen int

	closed atomic.Bool
	over   atomic.Bool // set at the end of release: queued operations are refused
	// closed when the watch has ended, and the endpoint uses nothing of MPI any more
	released chan struct{}
	// constant once released is closed: everything was given back to MPI, and no peer was lost
	orderly bool

	bind  sync.Once
	close func() error // calls end, once
}

// transfer identifies a transfer. peer is the sender's rank at the receiver, and the receiver's at
// the sender.
type transfer struct {
	peer int
	key  uint64
}

func newEndpoint(p *Process, rank, size int, span uint64, maxSleep time.Duration) *Endpoint {
	// number 0 means a frame
	e := &Endpoint{process: p, rank: rank, size: size, maxSleep: maxSleep, tags: tags{span: span}, table: []*op{nil},
		expects: map[transfer]*op{}, others: map[transfer]int{}, lost: make([]error, size), peerClosed: make([]bool, size), peersOpen: size - 1, released: make(chan struct{})}
	e.close = sync.OnceValue(e.end)
	e.pin.Pin(e)
	return e
}

func (e *Endpoint) words() *C.weft_shared { return (*C.weft_shared)(unsafe.Pointer(&e.s)) }

// Rank returns the endpoint's rank.
func (e *Endpoint) Rank() int { return e.rank }

// Size returns the number of ranks.
func (e *Endpoint) Size() int { return e.size }

// Grow returns ErrUnsupported: the processes of an MPI job are those that mpirun has started.
func (e *Endpoint) Grow(int) error { return fabric.ErrUnsupported }

// Caps returns the properties of the connection to a peer.
func (e *Endpoint) Caps(int) fabric.Caps { return caps }

// Sources returns the endpoint.
func (e *Endpoint) Sources() []fabric.Source { return []fabric.Source{e} }

// Shared returns ErrUnsupported.
func (e *Endpoint) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }

// Bind sets the handler and starts the watch, which polls.
func (e *Endpoint) Bind(h fabric.Handler, p fabric.Progress) {
	e.bind.Do(func() {
		e.handler, e.progress = h, p
		// ends after Close; then release runs, for which Process.Finalize waits
		e.startWatch()
	})
}

// Local returns the handler for the rank itself.
func (e *Endpoint) Local(peer int) fabric.Handler {
	if peer == e.rank {
		return e.handler
	}
	return nil
}

func (e *Endpoint) check(dst int) error {
	if uint(dst) >= uint(e.size) {
		return fmt.Errorf("%w: %d of %d", fabric.ErrRank, dst, e.size)
	}
	if e.closed.Load() {
		return fabric.ErrClosed
	}
	return nil
}

// Send moves one frame to a rank. A frame to a peer that is lost later is lost.
func (e *Endpoint) Send(dst int, f fabric.Frame) error {
	f.Origin, f.Target = int32(e.rank), int32(dst)
	return e.pass(dst, &f)
}

// Relay passes on a frame that is on its way.
func (e *Endpoint) Relay(hop int, f fabric.Frame) error {
	if err := f.Between(e.size); err != nil {
		return err
	}
	return e.pass(hop, &f)
}

func (e *Endpoint) pass(dst int, f *fabric.Frame) error {
	if err := e.check(dst); err != nil {
		return err
	}
	if len(f.Data) > MaxFrame {
		return fmt.Errorf("%w: a frame of %d bytes; the largest is %d", fabric.ErrUnsupported, len(f.Data), MaxFrame)
	}
	if dst == e.rank {
		fabric.Deliver(e.handler, f)
		return nil
	}
	if e.tryLock() {
		e.doQueued()
		err := e.refusal(dst)
		if err == nil {
			err = e.sendNow(dst, kindFrame, f)
		}
		e.unlock()
		return err
	}
	o := &op{kind: opFrame, peer: dst, frame: *f}
	o.frame.Data = bytes.Clone(f.Data)
	e.submit(o)
	return nil
}

// Expect sets the memory for the bytes of a transfer.
func (e *Endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	if err := e.check(src); err != nil {
		done(err)
		return
	}
	e.submit(newTransfer(opExpect, src, key, dst, done))
}

// Forget takes an expectation back. If MPI has matched it already, Forget returns false, and the
// transfer ends a moment later.
func (e *Endpoint) Forget(src int, key uint64) bool {
	if e.check(src) != nil {
		return false
	}
	if !e.tryLock() {
		if hasLock() { // waiting for the lock would wait for this goroutine itself
			return e.unqueue(src, key) || e.forget(src, key)
		}
		for !e.tryLock() {
			e.s.queued.Store(1)
			runtime.Gosched()
		}
	}
	e.doQueued()
	ok := e.forget(src, key)
	e.unlock()
	return ok
}

// forget is Forget. The caller has the lock.
func (e *Endpoint) forget(src int, key uint64) bool {
	o := e.expects[transfer{src, key}]
	return o != nil && !o.ended && e.withdraw(o, fabric.ErrClosed)
}

// unqueue removes a queued expectation: one handler has called Expect, and the next one calls
// Forget, before the lock is free. unqueue does no queued operation: that is left to the caller of
// the handler.
func (e *Endpoint) unqueue(src int, key uint64) bool {
	e.takeQueued()
	for at := &e.todo; *at != nil; at = &(*at).next {
		if o := *at; o.kind == opExpect && o.peer == src && o.key == key {
			*at = o.next
			o.pin.Unpin()
			C.weft_expect_strays(e.c) // the sender may learn the key nevertheless
			return true
		}
	}
	return false
}

// Push sends the bytes of a transfer.
func (e *Endpoint) Push(dst int, key uint64, data []byte, done func(error)) {
	if err := e.check(dst); err != nil {
		done(err)
		return
	}
	e.submit(newTransfer(opPush, dst, key, data, done))
}

// Drop ends the communication with a peer that the layer above knows to be lost. MPI keeps what it
// has begun to send to the peer.
func (e *Endpoint) Drop(peer int, err error) {
	if e.check(peer) == nil && peer != e.rank {
		e.submit(&op{kind: opDrop, peer: peer, err: &Error{Op: "drop", Rank: peer, Err: err}})
	}
}

// newTransfer returns an operation whose memory is pinned.
func newTransfer(kind opKind, peer int, key uint64, data []byte, done func(error)) *op {
	o := &op{kind: kind, peer: peer, key: key, data: data, done: done}
	if len(data) > 0 {
		o.pin.Pin(unsafe.SliceData(data))
	}
	return o
}

// Close waits until MPI has sent everything, and sends each peer a closing message, all within
// Linger. Afterwards a goroutine receives and drops what the peers send, until they have closed
// too.
func (e *Endpoint) Close() error { return e.close() }

func (e *Endpoint) end() error {
	e.closed.Store(true)
	e.Bind(nil, nil) // starts the watch if Bind was not called
	until := time.Now().Add(Linger)
	if e.progress != nil && !e.progress.Retire(e, Linger) {
		return &Error{Op: "close", Rank: -1, Err: fmt.Errorf("a goroutine still polls, or handles a frame, after %v", Linger)}
	}
	// MPI must have sent everything before the closing messages go out: a peer that has one from
	// every rank may free its communicators, and would not receive the rest.
	sent := e.pollUntil(until, func() bool { return e.todo == nil && e.queue.top.Load() == nil && C.weft_sending(e.c) == 0 })
	e.lock()
	for r := range e.size {
		if r != e.rank && e.lost[r] == nil {
			_ = e.sendNow(r, kindBye, new(fabric.Frame))
		}
	}
	for _, o := range e.table {
		if o != nil && o.kind == opExpect && e.withdraw(o, fabric.ErrClosed) {
			e.callDone(o, fabric.ErrClosed)
		}
	}
	e.unlock()
	sent = e.pollUntil(until, func() bool { return C.weft_sending(e.c) == 0 }) && sent
	e.s.stop.Store(1)
	C.weft_wake_watch(e.c)
	if !sent {
		return &Error{Op: "close", Rank: -1, Err: fmt.Errorf("MPI has not sent everything within %v", Linger)}
	}
	return nil
}

// release runs after the watch has ended. It receives and drops messages until no more can arrive,
// and gives everything back to MPI.
func (e *Endpoint) release() {
	for n := time.Duration(0); ; n++ {
		e.lock()
		for e.pollLocked(0) {
			n = 0
		}
		if e.peersOpen == 0 && C.weft_active(e.c) == 0 {
			break
		}
		e.unlock()
		time.Sleep(min(n*10*time.Microsecond, time.Millisecond))
	}
	// The lock is never released. A goroutine that comes from here on queues, and sees over.
	e.over.Store(true)
	e.refuseQueued()
	e.orderly = !slices.ContainsFunc(e.lost, func(err error) bool { return err != nil })
	if e.orderly {
		C.weft_close(e.c, 1)
		e.pin.Unpin()
	} else {
		C.weft_close(e.c, 0)
	}
	close(e.released)
}

// refuseQueued ends operations that were queued too late.
func (e *Endpoint) refuseQueued() {
	for o := e.queue.take(); o != nil; o = o.next {
		if o.done != nil {
			o.pin.Unpin()
			o.done(fabric.ErrClosed)
		}
	}
}

// pollUntil polls until over returns true, or the time is up, and returns the last result of over.
// over is called with the lock.
func (e *Endpoint) pollUntil(until time.Time, over func() bool) bool {
	for n := 0; ; n++ {
		e.lock()
		e.pollLocked(0)
		ok := over()
		e.unlock()
		switch {
		case ok || time.Now().After(until):
			return ok
		case n < 1000:
			runtime.Gosched()
		default:
			time.Sleep(min(time.Duration(n-999)*10*time.Microsecond, time.Millisecond))
		}
	}
}
