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

// shared are the words that Go and C both use; weft_shared of engine.h has the same layout and says
// what they mean.
type shared struct {
	seat, bell, stop, turns, deep, waits, polled atomic.Uint32
}

// Endpoint is one rank's end.
type Endpoint struct {
	fabric.NoSource // Knock is not called, and there is nothing for Serve and Work

	// Constant after construction.
	process    *Process
	rank, size int
	longest    time.Duration
	c          *C.weft_engine
	number     C.weft_number // c
	desk       *C.weft_desk
	pin        runtime.Pinner // of s

	handler  fabric.Handler  // set once by Bind, before frames are looked for
	progress fabric.Progress // likewise; nil if nobody has bound anything

	_ [64]byte
	s shared
	_ [64]byte

	queue queue

	// Owned by who has the seat.
	frame   fabric.Frame // that is delivered
	todo    *op          // taken from the queue, not done yet
	tags    tags
	table   []*op // transfers by number
	free    []uint64
	expects map[transfer]*op
	others  map[transfer]int // tags of pushes that are not those of their keys
	lost    []error          // by rank: nothing more to it or from it
	gone    []bool           // by rank: it has said that nothing more comes
	left    int              // peers that have not said so, nor are lost

	closed  atomic.Bool
	over    atomic.Bool   // nothing is done any more
	faded   chan struct{} // closed when the watch has ended
	orderly bool          // constant once faded is closed: all is given back to MPI

	bind  sync.Once
	close func() error // end, once
}

// transfer names a transfer: at its receiver by the sender's rank, at its sender by the receiver's.
type transfer struct {
	peer int
	key  uint64
}

func newEndpoint(p *Process, rank, size int, span uint64, longest time.Duration) *Endpoint {
	// number 0 is of frames
	e := &Endpoint{process: p, rank: rank, size: size, longest: longest, tags: tags{span: span}, table: []*op{nil},
		expects: map[transfer]*op{}, others: map[transfer]int{}, lost: make([]error, size), gone: make([]bool, size), left: size - 1, faded: make(chan struct{})}
	e.close = sync.OnceValue(e.end)
	e.pin.Pin(e)
	return e
}

func (e *Endpoint) words() *C.weft_shared { return (*C.weft_shared)(unsafe.Pointer(&e.s)) }

// Rank returns the endpoint's rank.
func (e *Endpoint) Rank() int { return e.rank }

// Size returns the number of ranks.
func (e *Endpoint) Size() int { return e.size }

// Grow is refused: the processes of an MPI job are those that mpirun has started.
func (e *Endpoint) Grow(int) error { return fabric.ErrUnsupported }

// Caps returns the properties of the connection to a peer.
func (e *Endpoint) Caps(int) fabric.Caps { return caps }

// Sources is the endpoint.
func (e *Endpoint) Sources() []fabric.Source { return []fabric.Source{e} }

// Shared is not there.
func (e *Endpoint) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }

// Bind sets the handler and begins to look for frames.
func (e *Endpoint) Bind(h fabric.Handler, p fabric.Progress) {
	e.bind.Do(func() {
		e.handler, e.progress = h, p
		// it ends when the endpoint is closed, and begins to fade; Process.Finalize waits for that
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
	if e.sit() {
		e.drain()
		err := e.refusal(dst)
		if err == nil {
			err = e.sendNow(dst, kindFrame, f)
		}
		e.rise()
		return err
	}
	o := &op{kind: opFrame, peer: dst, frame: *f}
	o.frame.Data = bytes.Clone(f.Data)
	e.submit(o)
	return nil
}

// Expect says where the bytes of a transfer are to be put.
func (e *Endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	if err := e.check(src); err != nil {
		done(err)
		return
	}
	e.submit(newTransfer(opExpect, src, key, dst, done))
}

// Forget takes an expectation back. If MPI has already matched it, the transfer ends a moment
// later, by done.
func (e *Endpoint) Forget(src int, key uint64) bool {
	if e.check(src) != nil {
		return false
	}
	if !e.sit() {
		if inside() { // it is this goroutine that has the seat
			return e.unqueue(src, key) || e.forget(src, key)
		}
		for !e.sit() {
			e.s.bell.Store(1)
			runtime.Gosched()
		}
	}
	e.drain()
	ok := e.forget(src, key)
	e.rise()
	return ok
}

// forget is Forget for who has the seat.
func (e *Endpoint) forget(src int, key uint64) bool {
	o := e.expects[transfer{src, key}]
	return o != nil && !o.told && e.withdraw(o, fabric.ErrClosed)
}

// unqueue takes an expectation back that is queued: where one handler expects and the next one
// forgets, before the seat is free. What is queued is not done here, since that is for who has
// called the handler.
func (e *Endpoint) unqueue(src int, key uint64) bool {
	e.fetch()
	for at := &e.todo; *at != nil; at = &(*at).next {
		if o := *at; o.kind == opExpect && o.peer == src && o.key == key {
			*at = o.next
			o.pin.Unpin()
			C.weft_strays(e.c) // its sender may hear of the key all the same
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

// Drop ends everything with a peer, which the layer above knows to be lost. What MPI has begun to
// send to it, MPI keeps.
func (e *Endpoint) Drop(peer int, err error) {
	if e.check(peer) == nil && peer != e.rank {
		e.submit(&op{kind: opDrop, peer: peer, err: &Error{Op: "drop", Rank: peer, Err: err}})
	}
}

// newTransfer returns an operation that has its memory pinned.
func newTransfer(kind opKind, peer int, key uint64, data []byte, done func(error)) *op {
	o := &op{kind: kind, peer: peer, key: key, data: data, done: done}
	if len(data) > 0 {
		o.pin.Pin(unsafe.SliceData(data))
	}
	return o
}

// Close ends the rank's part. It waits until what is being sent is sent, and tells the peers, all
// within Linger. The rest is done behind the scenes: until the peers have closed too, what they
// send is taken and dropped.
func (e *Endpoint) Close() error { return e.close() }

func (e *Endpoint) end() error {
	e.closed.Store(true)
	e.Bind(nil, nil) // if nobody has: there is a watch then
	until := time.Now().Add(Linger)
	if e.progress != nil && !e.progress.Retire(e, Linger) {
		return &Error{Op: "close", Rank: -1, Err: fmt.Errorf("somebody still looks at what has come, after %v", Linger)}
	}
	// What is sent is on its way before this side says that nothing more comes: a peer that has
	// heard so from all may go, and then nobody would take the rest.
	sent := e.pollUntil(until, func() bool { return e.todo == nil && e.queue.top.Load() == nil && C.weft_sending(e.c) == 0 })
	e.take()
	for r := range e.size {
		if r != e.rank && e.lost[r] == nil {
			_ = e.sendNow(r, kindBye, new(fabric.Frame))
		}
	}
	for _, o := range e.table {
		if o != nil && o.kind == opExpect && e.withdraw(o, fabric.ErrClosed) {
			e.tell(o, fabric.ErrClosed)
		}
	}
	e.rise()
	sent = e.pollUntil(until, func() bool { return C.weft_sending(e.c) == 0 }) && sent
	e.s.stop.Store(1)
	C.weft_kick(e.c)
	if !sent {
		return &Error{Op: "close", Rank: -1, Err: fmt.Errorf("what was sent has not been taken within %v", Linger)}
	}
	return nil
}

// fade is the watch's last duty: to take what comes until nothing more can come, and to give
// everything back to MPI.
func (e *Endpoint) fade() {
	for n := time.Duration(0); ; n++ {
		e.take()
		for e.turn(0) {
			n = 0
		}
		if e.left == 0 && C.weft_active(e.c) == 0 {
			break
		}
		e.rise()
		time.Sleep(min(n*10*time.Microsecond, time.Millisecond))
	}
	// The seat is kept for ever. Who comes from here on queues, and sees over.
	e.over.Store(true)
	e.refuseQueued()
	e.orderly = !slices.ContainsFunc(e.lost, func(err error) bool { return err != nil })
	if e.orderly {
		C.weft_close(e.c, 1)
		e.pin.Unpin()
	} else {
		C.weft_close(e.c, 0)
	}
	close(e.faded)
}

// refuseQueued ends what was queued too late.
func (e *Endpoint) refuseQueued() {
	for o := e.queue.take(); o != nil; o = o.next {
		if o.done != nil {
			o.pin.Unpin()
			o.done(fabric.ErrClosed)
		}
	}
}

// pollUntil makes progress until over, which is called with the seat, or the time is up. It returns
// what over says last.
func (e *Endpoint) pollUntil(until time.Time, over func() bool) bool {
	for n := 0; ; n++ {
		e.take()
		e.turn(0)
		ok := over()
		e.rise()
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
