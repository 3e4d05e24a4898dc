//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"runtime"
	"sync/atomic"

	"weft/internal/fabric"
)

type opKind uint8

const (
	opFrame opKind = iota
	opPush
	opExpect
	opDrop
)

// op is something that is to be done by who has the seat, or a transfer that is being made.
type op struct {
	next *op // in the queue

	// Constant once it is queued.
	kind  opKind
	peer  int
	key   uint64
	frame fabric.Frame // with a copy of its data
	data  []byte       // of a transfer
	done  func(error)

	// Owned by who has the seat.
	id   uint64         // of a transfer: its number in the table
	tag  int            // of an expectation
	left uint64         // pieces that have not ended
	here uint64         // bytes that have come
	err  error          // ends with this
	told bool           // done was called
	pin  runtime.Pinner // of a transfer's memory, which MPI has until left is zero
}

// queue takes operations from any goroutine. Who has the seat takes them all out, in the order in
// which they were put in.
type queue struct{ top atomic.Pointer[op] }

func (q *queue) push(o *op) {
	for {
		t := q.top.Load()
		o.next = t
		if q.top.CompareAndSwap(t, o) {
			return
		}
	}
}

// take returns the operations, oldest first, linked by next.
func (q *queue) take() *op {
	if q.top.Load() == nil {
		return nil
	}
	var first *op
	for o := q.top.Swap(nil); o != nil; {
		next := o.next
		o.next = first
		first, o = o, next
	}
	return first
}
