// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import "weft/comm"

// Region is what one target rank owns of a window.
type Region struct {
	Size int // bytes
	Unit int // bytes per displacement
}

// Backing is where a window's memory lives. Each rank of the window has a Backing of its own, all of which reach the
// same memory.
//
// The window has checked rank, offset and length before it calls; offsets are in bytes. Put, Get and Accumulate are
// called concurrently and do not block. The buffer stays the operation's until the Flush after it is done; when the memory
// at the target changes before that is the backing's affair.
type Backing interface {
	// Regions lists the regions by target rank. There may be more or fewer than ranks in the communicator. Constant.
	Regions() []Region

	Put(rank, off int, src comm.Buffer) error
	Get(rank, off int, dst comm.Buffer) error
	// Accumulate is atomic per element with respect to every other Accumulate on the same memory.
	Accumulate(rank, off int, src comm.Buffer, op comm.Op) error

	// Flush is called once per fence, when all operations of this rank's epoch have returned and before the barrier. It
	// calls done, at once or later, from any goroutine, when their effects are where other ranks find them after the
	// barrier.
	Flush(done func(error))
	// Closed is called once per fence after the barrier: every rank's operations of the epoch are in place. The fence
	// is complete at this rank when done is called.
	Closed(done func(error))

	// Free is called once; no operation or fence of this rank is under way or will come.
	Free() error
}
