// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import "sync/atomic"

// A Ring buffers the records of one writer at a time. The writer may change if the hand-over orders
// the old writer's accesses before the new writer's. README.md, "A ring with one writer", has the
// protocol; the labels in the code are its steps.
type Ring struct {
	// Constant after construction.
	source
	buf []Record // a power of two long

	// Owned by the writer.
	limit uint64 // the writer may fill up to here without loading tail

	head mark // records published; stored by the writer only
	_    [cacheLine]byte
	tail atomic.Uint64 // records consumed; stored by the reader only
	lost atomic.Uint64 // records dropped because the ring was full
}

const cacheLine = 64

// Put records a trace event with the time ticks.
func (r *Ring) Put(ticks int64, k Kind, a, b, c uint64) {
	h := r.head.own()
	if h == r.limit && !r.more() {
		return
	}
	p := &r.buf[h&uint64(len(r.buf)-1)]
	p.when = uint64(ticks)<<8 | uint64(k)
	p.A, p.B, p.C = a, b, c
	r.head.publish(h + 1) // W2
}

// more advances limit and returns true, or counts the record as lost and returns false.
func (r *Ring) more() bool {
	size := uint64(len(r.buf))
	tail := r.tail.Load() // W1
	for r.head.own()-tail >= size && r.waitForRoom() {
		tail = r.tail.Load()
	}
	switch used := r.head.own() - tail; {
	case used >= size:
		r.lost.Add(1)
		r.wake()
		return false
	case used >= size/2:
		r.limit = tail + size
		r.wake()
	default:
		r.limit = tail + size/2
	}
	return true
}

// take passes the published records to f, which must not keep them.
func (r *Ring) take(f func([]Record)) {
	tail, head := r.tail.Load(), r.head.load() // R1
	size := uint64(len(r.buf))
	for tail < head {
		at := tail & (size - 1)
		n := min(head-tail, size-at)
		f(r.buf[at : at+n])
		tail += n
		r.tail.Store(tail) // R2
	}
}

func (r *Ring) losses() uint64 { return r.lost.Load() }

// A Shared ring buffers the records of any number of goroutines at once. README.md, "A ring with
// many writers", has the protocol.
type Shared struct {
	// Constant after construction.
	source
	cells []cell // a power of two long

	_    [cacheLine]byte
	head atomic.Uint64 // cells claimed
	_    [cacheLine]byte
	tail atomic.Uint64 // cells consumed; stored by the reader only
	lost atomic.Uint64
}

// cell is a record, and a mark that it is completely written.
type cell struct {
	full atomic.Uint64 // the record's ordinal number, plus one
	rec  Record
}

// Put records a trace event with the current time. It does nothing on a nil ring.
func (r *Shared) Put(k Kind, a, b, c uint64) {
	if r == nil || !r.Wants.Has(k) {
		return
	}
	size := uint64(len(r.cells))
	when := Ticks() // C0
	for {
		h := r.head.Load()
		used := h - r.tail.Load()
		if used >= size {
			if r.waitForRoom() {
				when = Ticks()
				continue
			}
			r.lost.Add(1)
			r.wake()
			return
		}
		if !r.head.CompareAndSwap(h, h+1) { // C1
			continue
		}
		p := &r.cells[h&(size-1)]
		p.rec = Record{uint64(when)<<8 | uint64(k), a, b, c}
		p.full.Store(h + 1) // C2
		if used == size/2 {
			r.wake()
		}
		return
	}
}

// take is Ring.take for a shared ring. A cell that is claimed and not yet filled ends the batch: it
// and all later cells are left for the next call.
func (r *Shared) take(f func([]Record)) {
	var some [256]Record
	size := uint64(len(r.cells))
	for {
		tail := r.tail.Load()
		n := uint64(0)
		for n < uint64(len(some)) {
			p := &r.cells[(tail+n)&(size-1)]
			if p.full.Load() != tail+n+1 {
				break
			}
			some[n] = p.rec
			n++
		}
		if n == 0 {
			return
		}
		r.tail.Store(tail + n)
		f(some[:n])
	}
}

func (r *Shared) losses() uint64 { return r.lost.Load() }
