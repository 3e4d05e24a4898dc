// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package rma gives ranks direct access to each other's memory: windows, epochs and the operations
// in them.
//
//	win, mine, err := rma.Allocate[float64](c, 1024)     // collective; mine is this rank's region
//	...
//	win.Fence(0)                                         // opens an epoch
//	win.Put(comm.Of(row), right, 512)                    // into rank right, from its element 512 on
//	win.Accumulate(comm.Of(sums), 0, 0, comm.Sum)
//	win.Fence(0)                                         // closes it: the data is in place
//	...
//	req := win.Ifence(0)                                 // the same without waiting: any number may
//	                                                     // be outstanding
//	win.Put(comm.Of(next), right, 0)                     // belongs to the next epoch
//	win.Free()
//
// The window's [Backing] says where the memory lives: process memory here, network-attached memory
// in package nam. The ranks may be in one process, where an operation is one copy, or in several,
// where operations travel in messages. All calls mean the same in both cases.
//
// # States
//
// A window at one rank:
//
//	             Fence, Ifence                      the last fence completes
//	 no epoch  ────────────────▶  fencing          ──────────────────────────▶  open
//	(ErrSync)  ◀────────────────  (operations are  ◀──────────────────────────  (the caller carries
//	             NoSucceed: the    queued)               Fence, Ifence           operations out)
//	             fence completes
//
//	in each state, Free  ────▶  freed (ErrFreed)
//
// A fence: queued → waits for this rank's direct operations → flush → barrier → close → complete.
//
// # Invariants
//
//   - The state word holds both the bits of a fence and the count of direct operations. So either
//     an operation sees the fence, or the fence sees the operation.
//   - At one rank, operations and fences take effect in the order of the calls (calls of concurrent
//     goroutines: in some order), except that direct operations of one epoch may run at the same
//     time.
//   - A rank has at most one barrier of a window outstanding.
//
// From these, README.md argues that an epoch is complete when its fence is complete, and that no
// operation of the next epoch happens earlier.
//
// # Concurrency
//
// Any goroutine may call any method. Fence, Free, New, Allocate and Create block; no other call
// blocks. While no fence is outstanding, only operations on ranks of other processes take a lock.
// This package has no goroutine: the goroutine that completes the last condition of a fence goes on
// with the fence, and carries out the operations that were queued.
//
// Lock order: Win.mu is taken with no other lock held, and is released before a backing, an
// operation of the communicator or a callback is called. Accumulate on process memory holds the
// lock of the target's region and no other. Between processes: no lock is taken while channel.mu or
// endpoint.mu is held, and neither is held while comm is called.
package rma
