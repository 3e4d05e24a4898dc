// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mpi is the fabric of clusters. An MPI library, which knows the machine's network and was
// started by the machine's launcher, carries frames and transfers. The layer that uses the fabric
// does the matching. The package is built with -tags mpi and the compiler of an MPI library.
// Without the tag, it is pure Go, and returns [ErrAbsent] where MPI is needed.
//
//	started, err := mpi.Detect()              // nil: no mpirun, no srun
//	p, err := mpi.Start(started)              // MPI_Init; once per process
//	shares, err := p.Exchange(share)          // what each process says to all, by rank
//	ep, err := p.Open([]int{0, 1, 2, 3})      // ranks of the MPI world; all of them call it
//	ep.Bind(handler, engine)                  // a progress.Engine of ep.Sources()
//	ep.Send(2, fabric.Frame{Data: bytes})
//	...
//	err = ep.Close()
//	err = p.Finalize()                        // after the others have closed, too
//
// The states of an endpoint:
//
//	      Close         all peers have closed, or are lost
//	open ───────► closed ────────────────────────────────► released
//
//	open      frames and transfers
//	closed    nothing is delivered any more; messages of the peers are received and dropped
//	released  the endpoint uses nothing of MPI any more
//
// A process has one endpoint at a time. A closed endpoint still receives, since a peer's message
// that is never received would keep that peer's memory, and MPI's, for ever.
//
// # Invariants
//
//   - At any time, at most one goroutine or thread of the process calls MPI: the one that has the
//     MPI lock (MPI_THREAD_SERIALIZED).
//   - An operation that a goroutine begins while another one has the lock is queued. The goroutine
//     that has the lock does the operation before it has released the lock for long.
//   - MPI uses Go memory only while a transfer is under way. The memory is pinned until MPI is done
//     with it.
//   - Transfers that a rank expects from one peer at the same time have different MPI tags.
//   - done is called once; after a Forget that returns true, never.
//
// # Concurrency and blocking
//
// Any goroutine may call the methods of an endpoint. Only Close waits for other ranks, for at most
// [Linger]; neither Poll nor calls from a handler wait. All ranks must call Start, Exchange, Open
// and Finalize in the same order. These calls wait for all ranks.
//
// # Lock order
//
//	Process.mu
//	the MPI lock
//
// README.md beside the code has the protocol, its argument, and its costs.
package mpi
