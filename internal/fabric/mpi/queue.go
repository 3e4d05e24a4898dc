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

// op is an operation that waits for the goroutine that has the MPI lock, or a transfer that is
// under way.
type op struct {
	next *op // in the queue

	// Constant once it is queued.
	kind  opKind
	peer  int
	key   uint64
	frame fabric.Frame // with a copy of its data
	data  []byte       // of a transfer
	done  func(error)

	// Owned by the goroutine or thread that has the MPI lock.
	id       uint64         // of a transfer: its number in the table
	tag      int            // of an expectation
	pieces   uint64         // number of pieces that have not ended
	received uint64         // number of bytes that have arrived
	err      error          // the transfer ends with this error
	ended    bool           // done was called
	pin      runtime.Pinner // of a transfer's memory, which MPI uses until pieces is zero
}

// queue is a lock-free queue of operations. Any goroutine may push. The goroutine that has the MPI
// lock takes all operations at once, in the order of the pushes.
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
