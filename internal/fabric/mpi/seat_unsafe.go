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
// #cgo noescape weft_look
// #cgo nocallback weft_look
// #cgo noescape weft_push
// #cgo nocallback weft_push
// #cgo noescape weft_expect
// #cgo nocallback weft_expect
// #cgo noescape weft_take_back
// #cgo nocallback weft_take_back
// #cgo noescape weft_kick
// #cgo nocallback weft_kick
// #cgo noescape weft_strays
// #cgo nocallback weft_strays
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

// spins is how often one call of C looks, if nothing happens and whoever polls is patient: some
// microseconds.
const spins = 64

// What the seat's word says.
const (
	seatFree = iota
	seatTaken
)

// sit takes the seat if it is free. Who has it calls rise.
func (e *Endpoint) sit() bool {
	return e.s.seat.Load() == seatFree && e.s.seat.CompareAndSwap(seatFree, seatTaken)
}

// take waits for the seat: whoever has it works for a short time.
func (e *Endpoint) take() {
	for !e.sit() {
		runtime.Gosched()
	}
}

// rise does what was queued meanwhile and gives the seat up. README.md, "The seat", has the reason
// for the order.
func (e *Endpoint) rise() {
	for {
		e.drain()
		e.s.seat.Store(seatFree)
		if e.s.bell.Load() == 0 || !e.sit() {
			return
		}
	}
}

// submit queues an operation, which is done by this goroutine or by whoever has the seat.
func (e *Endpoint) submit(o *op) {
	e.queue.push(o)
	e.s.bell.Store(1)
	if e.sit() {
		e.rise()
	} else if e.over.Load() {
		e.refuseQueued()
	}
}

// The endpoint is a source of its rank's engine. Its doorbell is the watch.

// Costs: a poll is a call of C, and of MPI.
func (e *Endpoint) Costs() fabric.Costs { return fabric.Costs{Poll: true} }

// Poll delivers messages and ends transfers, if there are any, and reports whether there were.
func (e *Endpoint) Poll(patient bool) bool {
	if !e.sit() {
		return false
	}
	n := C.int(1)
	if patient {
		n = spins
	}
	did := e.turn(n)
	e.rise()
	return did
}

// Arm says whether somebody polls who will say when he gives up. If he does, the watch looks from
// then on.
func (e *Endpoint) Arm(on bool, why fabric.Leaving) fabric.Armed {
	if !on {
		e.s.polled.Store(1)
		return fabric.ArmedFully
	}
	e.s.polled.Store(0)
	if why == fabric.LeavingInVain {
		C.weft_kick(e.c)
	}
	return fabric.ArmedFully
}

// Midway reports whether a transfer is under way.
func (e *Endpoint) Midway() bool { return e.desk.under_way != 0 }

// turn looks for events, unless the watch has left some, and handles them. The caller has the seat.
func (e *Endpoint) turn(spins C.int) bool {
	if e.desk.n == 0 {
		C.weft_look(e.number, spins)
	}
	return e.handle()
}

// handle deals with the events on the desk, and reports whether there are any. The caller has the
// seat; what is called from here may not, and queues.
func (e *Endpoint) handle() bool {
	n := int(e.desk.n)
	e.desk.n = 0
	for i := range e.desk.ev[:n] {
		ev := &e.desk.ev[i]
		peer := int(ev.peer)
		switch ev.kind {
		case C.WEFT_FRAME:
			e.arrived(peer, int(ev.tag), unsafe.Slice((*byte)(unsafe.Pointer(ev.data)), int(ev.bytes)))
		case C.WEFT_BULK:
			e.ended(uint64(ev.id), peer, uint64(ev.bytes), ev.code)
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

// arrived deals with a message on the frames' communicator.
func (e *Endpoint) arrived(src, tag int, b []byte) {
	switch {
	case e.lost[src] != nil:
		return
	case len(b) < headSize || e.gone[src]:
		e.lose(src, &Error{Op: "receive", Rank: src, Err: fmt.Errorf("%w: %d bytes with tag %d; a head has %d, and nothing comes after the end", ErrFrame, len(b), tag, headSize)})
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
		e.gone[src] = true
		e.left--
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

// ended deals with the end of a piece of a transfer.
func (e *Endpoint) ended(id uint64, peer int, n uint64, code C.int) {
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
	o.left--
	o.here += n
	o.err = cmp.Or(o.err, err)
	if o.left > 0 {
		return
	}
	if o.kind == opExpect && o.err == nil && o.here != uint64(len(o.data)) {
		o.err = &Error{Op: "transfer", Rank: peer, Err: fmt.Errorf("%w: %d bytes of the transfer %d, of which %d were expected", ErrFrame, o.here, o.key, len(o.data))}
		defer e.lose(peer, o.err)
	}
	e.retire(o)
	e.tell(o, o.err)
}

// retire takes a transfer that MPI is done with out of the books.
func (e *Endpoint) retire(o *op) {
	if o.kind == opExpect {
		delete(e.expects, transfer{o.peer, o.key})
		e.tags.give(o.peer, o.tag)
	}
	e.table[o.id] = nil
	e.free = append(e.free, o.id)
	o.pin.Unpin()
}

// tell calls done, once.
func (e *Endpoint) tell(o *op, err error) {
	if !o.told {
		o.told = true
		o.done(err)
	}
}

// lose ends all with a peer. Memory that MPI may still use stays pinned.
func (e *Endpoint) lose(peer int, err error) {
	if peer == e.rank || e.lost[peer] != nil {
		return
	}
	e.lost[peer] = err
	if !e.gone[peer] {
		e.left--
	}
	for _, o := range e.table {
		if o == nil || o.peer != peer {
			continue
		}
		if o.kind == opExpect && !e.withdraw(o, err) {
			continue // told when MPI lets go of it
		}
		e.tell(o, err)
	}
	if !e.gone[peer] && !e.closed.Load() {
		e.handler.Lost(peer, err)
	}
}

// withdraw takes an expectation back from MPI. If that has matched it, the transfer ends with err
// later.
func (e *Endpoint) withdraw(o *op, err error) bool {
	if C.weft_take_back(e.c, C.uint64_t(o.id), C.uint64_t(o.left)) != 0 {
		e.retire(o)
		return true
	}
	o.err = cmp.Or(o.err, err)
	return false
}

// refusal returns why nothing can be begun with a peer.
func (e *Endpoint) refusal(peer int) error {
	switch {
	case e.lost[peer] != nil:
		return e.lost[peer]
	case e.gone[peer]:
		return fmt.Errorf("%w: by rank %d", fabric.ErrClosed, peer)
	}
	return nil
}

// drain does what is queued. The caller has the seat.
func (e *Endpoint) drain() {
	for e.todo != nil || e.s.bell.Load() != 0 {
		if e.todo == nil {
			e.fetch()
		}
		for o := e.todo; o != nil; o = e.todo {
			e.todo, o.next = o.next, nil
			e.do(o)
		}
	}
}

// fetch takes what is queued, behind what was taken before. The caller has the seat.
func (e *Endpoint) fetch() {
	e.s.bell.Store(0) // before the queue is taken: what comes after that rings again
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
			e.tell(o, err)
		}
	}
}

// sendNow sends a message on the frames' communicator.
func (e *Endpoint) sendNow(dst, tag int, f *fabric.Frame) error {
	d := e.desk
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

// enter puts a transfer of n bytes in the table.
func (e *Endpoint) enter(o *op) {
	if n := len(e.free); n > 0 {
		o.id = e.free[n-1]
		e.free = e.free[:n-1]
		e.table[o.id] = o
	} else {
		o.id = uint64(len(e.table))
		e.table = append(e.table, o)
	}
	o.left = uint64(C.weft_pieces(C.uint64_t(len(o.data))))
}

// expect posts the receives of a transfer. The peer hears of another tag by a frame that goes out
// before any that can tell it the key.
func (e *Endpoint) expect(o *op) error {
	tag, other, ok := e.tags.take(o.peer, o.key)
	if !ok {
		C.weft_strays(e.c)
		return &Error{Op: "expect", Rank: o.peer, Err: fmt.Errorf("%d transfers from this rank are under way, and MPI has no more tags", e.tags.span)}
	}
	if other {
		if err := e.sendNow(o.peer, kindTag, &fabric.Frame{Head: [fabric.HeadWords]uint64{o.key, uint64(tag)}}); err != nil {
			e.tags.give(o.peer, tag)
			return err
		}
	}
	o.tag = tag
	e.enter(o)
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
	e.enter(o)
	C.weft_push(e.c, C.int(o.peer), C.int(tag), (*C.char)(unsafe.Pointer(unsafe.SliceData(o.data))), C.uint64_t(len(o.data)), C.uint64_t(o.id))
}
