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
//	win.Fence(0)                                         // closes it: what was put is there
//	...
//	req := win.Ifence(0)                                 // the same without waiting; any number may be outstanding
//	win.Put(comm.Of(next), right, 0)                     // belongs to the next epoch
//	win.Free()
//
// Where the memory lives is the window's [Backing]: process memory here, network-attached memory in
// package nam. The ranks may be in one process, where an operation is one copy, or in several,
// where operations travel in messages; all calls mean the same.
//
// # States
//
// A window at one rank:
//
//	          Fence/Ifence            fence completes, nothing queued
//	no epoch ─────────────▶ fencing ◀───────────────────────────────▶ open
//	(ErrSync)               (operations queue)   Fence/Ifence         (operations are carried out by the caller)
//	                            │ Free
//	                            ▼
//	                          freed (ErrFreed)
//
// A fence: queued → waiting for this rank's direct operations → flush → barrier → close → complete.
//
// # Invariants
//
//   - Between the bits of the state word and the count of direct operations in the same word,
//     either an operation sees the fence or the fence sees the operation.
//   - At one rank, operations and fences take effect in the order of the calls (calls of concurrent
//     goroutines: in some order), except that direct operations of one epoch may run at the same
//     time.
//   - A rank has at most one barrier of a window outstanding.
//
// README.md argues from these that an epoch is complete when its fence is, and that nothing of the
// next comes earlier.
//
// # Concurrency
//
// Any goroutine may call any method. Fence, Free and the makers of windows block; nothing else
// does. No operation takes a lock while no fence is outstanding, but for those on ranks of other
// processes. There is no goroutine in this package: fences are moved on by whoever completes their
// last condition, and operations that were queued are carried out by that goroutine.
//
// Lock order: Win.mu is taken with nothing else held, and let go of before a backing, the
// communicator or a callback is called. Accumulate on process memory takes the lock of the target's
// region alone. Between processes: lane.mu before nothing, port.mu before nothing; neither is held
// while comm is called.
package rma
