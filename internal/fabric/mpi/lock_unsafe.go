//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

// #cgo noescape weft_send
// #cgo nocallback weft_send
// #cgo noescape weft_send_large
// #cgo nocallback weft_send_large
// #cgo noescape weft_refill
// #cgo nocallback weft_refill
// #cgo noescape weft_poll_go
// #cgo nocallback weft_poll_go
// #cgo noescape weft_push
// #cgo nocallback weft_push
// #cgo noescape weft_expect
// #cgo nocallback weft_expect
// #cgo noescape weft_take_back
// #cgo nocallback weft_take_back
// #cgo noescape weft_wake_watch
// #cgo nocallback weft_wake_watch
// #cgo noescape weft_expect_strays
// #cgo nocallback weft_expect_strays
// #include "engine.h"
import "C"

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"weft/internal/fabric"
)

// spins is the number of polls in one call of C if the poll is patient and nothing happens: some
// microseconds.
const spins = 64

// The values of the lock's word.
const (
	unlocked = iota
	locked
)

// tryLock takes the MPI lock if it is free. The goroutine that has the lock must call unlock.
func (e *Endpoint) tryLock() bool {
	return e.s.lock.Load() == unlocked && e.s.lock.CompareAndSwap(unlocked, locked)
}

// lock waits for the MPI lock, which other goroutines hold for a short time.
func (e *Endpoint) lock() {
	for !e.tryLock() {
		runtime.Gosched()
	}
}

// unlock does the queued operations and releases the MPI lock. README.md, "The MPI lock", has the
// reason for the order (U1 to U3).
func (e *Endpoint) unlock() {
	for {
		e.doQueued()
		e.s.lock.Store(unlocked)
		if e.s.queued.Load() == 0 || !e.tryLock() {
			return
		}
	}
}

// submit queues an operation (Q1 to Q3). This goroutine does it, or the one that has the lock.
func (e *Endpoint) submit(o *op) {
	e.queue.push(o)
	e.s.queued.Store(1)
	if e.tryLock() {
		e.unlock()
	} else if e.over.Load() {
		e.refuseQueued()
	}
}

// The endpoint is a source of its rank's engine. Its doorbell is the watch.

// Costs: a poll is a call of C, and of MPI.
func (e *Endpoint) Costs() fabric.Costs { return fabric.Costs{Poll: true} }

// Poll delivers the messages that are there and ends transfers, and reports whether there were any.
func (e *Endpoint) Poll(patient bool) bool {
	if !e.tryLock() {
		return false
	}
	n := C.int(1)
	if patient {
		n = spins
	}
	did := e.pollLocked(n)
	e.unlock()
	return did
}

// Arm sets the word polled: whether a goroutine polls that will wake the watch when it gives up.
// From then on, the watch polls.
func (e *Endpoint) Arm(on bool, why fabric.Leaving) fabric.Armed {
	if !on {
		e.s.polled.Store(1)
		return fabric.ArmedFully
	}
	e.s.polled.Store(0)
	if why == fabric.LeavingInVain {
		C.weft_wake_watch(e.c)
	}
	return fabric.ArmedFully
}

// Midway reports whether a transfer is under way.
func (e *Endpoint) Midway() bool { return e.report.under_way != 0 }

// pollLocked polls for events, unless the watch has left some, and handles them. The caller has the
// lock.
func (e *Endpoint) pollLocked(spins C.int) bool {
	if e.report.n == 0 {
		C.weft_poll_go(e.number, spins)
	}
	return e.handleEvents()
}

// handleEvents handles the events of the last poll, and reports whether there are any. The caller
// has the lock. Handlers and done, which are called from here, cannot take the lock, and queue.
func (e *Endpoint) handleEvents() bool {
	n := int(e.report.n)
	e.report.n = 0
	for i := range e.report.ev[:n] {
		ev := &e.report.ev[i]
		peer := int(ev.peer)
		switch ev.kind {
		case C.WEFT_FRAME:
			e.handleFrame(peer, int(ev.tag), unsafe.Slice((*byte)(unsafe.Pointer(ev.data)), int(ev.bytes)))
		case C.WEFT_BULK:
			e.handlePieceEnd(uint64(ev.id), peer, uint64(ev.bytes), ev.code)
		case C.WEFT_FAILED: // to receive, from one rank or, if that is -1, from all
			err := check("receive", peer, ev.code)
			for r := range e.size {
				if peer < 0 || r == peer {
					e.lose(r, err)
				}
			}
		}
	}
	return n > 0
}

// handleFrame handles a message on the frames' communicator.
func (e *Endpoint) handleFrame(src, tag int, b []byte) {
	switch {
	case e.lost[src] != nil:
		return
	case len(b) < headSize || e.peerClosed[src]:
		e.lose(src, &Error{Op: "receive", Rank: src, Err: fmt.Errorf("%w: %d bytes with tag %d; a head has %d, and nothing may follow a closing message", ErrFrame, len(b), tag, headSize)})
		return
	}
	f := &e.frame
	f.Data = b[headSize:]
	f.Origin, f.Target = int32(binary.LittleEndian.Uint32(b)), int32(binary.LittleEndian.Uint32(b[4:]))
	if err := f.Between(e.size); err != nil {
		e.lose(src, &Error{Op: "receive", Rank: src, Err: fmt.Errorf("%w: %w", ErrFrame, err)})
		return
	}
	for i := range f.Head {
		f.Head[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	switch tag {
	case kindFrame:
		if !e.closed.Load() {
			e.handler.Deliver(f)
		}
	case kindBye:
		e.peerClosed[src] = true
		e.peersOpen--
	case kindTag:
		if f.Head[1] >= e.tags.span {
			e.lose(src, &Error{Op: "receive", Rank: src, Err: fmt.Errorf("%w: the tag %d; the largest is %d", ErrFrame, f.Head[1], e.tags.span-1)})
			return
		}
		e.others[transfer{src, f.Head[0]}] = int(f.Head[1])
	default:
		e.lose(src, &Error{Op: "receive", Rank: src, Err: fmt.Errorf("%w: its tag is %d", ErrFrame, tag)})
	}
}

// handlePieceEnd handles the end of a piece of a transfer.
func (e *Endpoint) handlePieceEnd(id uint64, peer int, n uint64, code C.int) {
	err := fabric.ErrClosed // it was cancelled
	if code != C.MPI_ERR_PENDING {
		if err = check("transfer", peer, code); err != nil {
			defer e.lose(peer, err)
		}
	}
	if id == 0 {
		return // a frame
	}
	o := e.table[id]
	o.pieces--
	o.received += n
	o.err = cmp.Or(o.err, err)
	if o.pieces > 0 {
		return
	}
	if o.kind == opExpect && o.err == nil && o.received != uint64(len(o.data)) {
		o.err = &Error{Op: "transfer", Rank: peer, Err: fmt.Errorf("%w: %d bytes of transfer %d; %d were expected", ErrFrame, o.received, o.key, len(o.data))}
		defer e.lose(peer, o.err)
	}
	e.removeTransfer(o)
	e.callDone(o, o.err)
}

// removeTransfer removes a transfer that MPI is done with from the tables.
func (e *Endpoint) removeTransfer(o *op) {
	if o.kind == opExpect {
		delete(e.expects, transfer{o.peer, o.key})
		e.tags.release(o.peer, o.tag)
	}
	e.table[o.id] = nil
	e.free = append(e.free, o.id)
	o.pin.Unpin()
}

// callDone calls done, once.
func (e *Endpoint) callDone(o *op, err error) {
	if !o.ended {
		o.ended = true
		o.done(err)
	}
}

// lose ends the communication with a peer. Memory that MPI may still use stays pinned.
func (e *Endpoint) lose(peer int, err error) {
	if peer == e.rank || e.lost[peer] != nil {
		return
	}
	e.lost[peer] = err
	if !e.peerClosed[peer] {
		e.peersOpen--
	}
	for _, o := range e.table {
		if o == nil || o.peer != peer {
			continue
		}
		if o.kind == opExpect && !e.withdraw(o, err) {
			continue // done is called when MPI releases the memory
		}
		e.callDone(o, err)
	}
	if !e.peerClosed[peer] && !e.closed.Load() {
		e.handler.Lost(peer, err)
	}
}

// withdraw takes an expectation back from MPI. If MPI has matched it already, withdraw returns
// false, and the transfer ends with err later.
func (e *Endpoint) withdraw(o *op, err error) bool {
	if C.weft_take_back(e.c, C.uint64_t(o.id), C.uint64_t(o.pieces)) != 0 {
		e.removeTransfer(o)
		return true
	}
	o.err = cmp.Or(o.err, err)
	return false
}

// refusal returns the reason if no operation with a peer can begin.
func (e *Endpoint) refusal(peer int) error {
	switch {
	case e.lost[peer] != nil:
		return e.lost[peer]
	case e.peerClosed[peer]:
		return fmt.Errorf("%w: by rank %d", fabric.ErrClosed, peer)
	}
	return nil
}

// doQueued does the queued operations. The caller has the lock.
func (e *Endpoint) doQueued() {
	for e.todo != nil || e.s.queued.Load() != 0 {
		if e.todo == nil {
			e.takeQueued()
		}
		for o := e.todo; o != nil; o = e.todo {
			e.todo, o.next = o.next, nil
			e.do(o)
		}
	}
}

// takeQueued takes the queued operations, and appends them to those that were taken before. The
// caller has the lock.
func (e *Endpoint) takeQueued() {
	e.s.queued.Store(0) // before the queue is taken: a later operation sets the word again
	at := &e.todo
	for *at != nil {
		at = &(*at).next
	}
	*at = e.queue.take()
}

func (e *Endpoint) do(o *op) {
	err := e.refusal(o.peer)
	switch o.kind {
	case opDrop:
		e.lose(o.peer, o.err)
	case opFrame:
		if err == nil {
			_ = e.sendNow(o.peer, kindFrame, &o.frame)
		}
	default:
		if err == nil && o.kind == opExpect {
			err = e.expect(o)
		} else if err == nil {
			e.push(o)
		}
		if err != nil {
			o.pin.Unpin()
			e.callDone(o, err)
		}
	}
}

// sendNow sends a message on the frames' communicator.
func (e *Endpoint) sendNow(dst, tag int, f *fabric.Frame) error {
	d := e.report
	if d.out == nil {
		if C.weft_refill(e.c); d.out == nil {
			return &Error{Op: "send", Rank: dst, Err: errMemory}
		}
	}
	b := (*[C.WEFT_SMALL]byte)(unsafe.Pointer(d.out))
	binary.LittleEndian.PutUint32(b[:], uint32(f.Origin))
	binary.LittleEndian.PutUint32(b[4:], uint32(f.Target))
	for i, w := range f.Head {
		binary.LittleEndian.PutUint64(b[8+8*i:], w)
	}
	data := f.Data
	var code C.int
	if n := len(data); n <= len(b)-headSize {
		copy(b[headSize:], data)
		code = C.weft_send(e.number, C.int(dst), C.int(tag), C.int(headSize+n))
	} else {
		code = C.weft_send_large(e.c, C.int(dst), C.int(tag), headSize, (*C.char)(unsafe.Pointer(unsafe.SliceData(data))), C.int(n))
	}
	if code == C.MPI_SUCCESS {
		return nil
	}
	err := check("send", dst, code)
	e.lose(dst, err)
	return err
}

// addTransfer puts a transfer in the table.
func (e *Endpoint) addTransfer(o *op) {
	if n := len(e.free); n > 0 {
		o.id = e.free[n-1]
		e.free = e.free[:n-1]
		e.table[o.id] = o
	} else {
		o.id = uint64(len(e.table))
		e.table = append(e.table, o)
	}
	o.pieces = uint64(C.weft_pieces(C.uint64_t(len(o.data))))
}

// expect posts the receives of a transfer. If the tag is not the one of the key, a message tells
// the peer. It is sent before any frame that can tell the peer the key.
func (e *Endpoint) expect(o *op) error {
	tag, other, ok := e.tags.choose(o.peer, o.key)
	if !ok {
		C.weft_expect_strays(e.c)
		return &Error{Op: "expect", Rank: o.peer, Err: fmt.Errorf("%d transfers from this rank are under way, and MPI has no further tags", e.tags.span)}
	}
	if other {
		if err := e.sendNow(o.peer, kindTag, &fabric.Frame{Head: [fabric.HeadWords]uint64{o.key, uint64(tag)}}); err != nil {
			e.tags.release(o.peer, tag)
			return err
		}
	}
	o.tag = tag
	e.addTransfer(o)
	e.expects[transfer{o.peer, o.key}] = o
	C.weft_expect(e.c, C.int(o.peer), C.int(tag), (*C.char)(unsafe.Pointer(unsafe.SliceData(o.data))), C.uint64_t(len(o.data)), C.uint64_t(o.id))
	return nil
}

// push begins to send a transfer.
func (e *Endpoint) push(o *op) {
	tag := e.tags.of(o.key)
	t := transfer{o.peer, o.key}
	if other, ok := e.others[t]; ok {
		delete(e.others, t)
		tag = other
	}
	e.addTransfer(o)
	C.weft_push(e.c, C.int(o.peer), C.int(tag), (*C.char)(unsafe.Pointer(unsafe.SliceData(o.data))), C.uint64_t(len(o.data)), C.uint64_t(o.id))
}
