// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mpi is the fabric of clusters: an MPI library, which knows the machine's network and was
// started by the machine's launcher, carries frames and transfers. Matching stays with who uses the
// fabric. It is built with -tags mpi and the compiler of an MPI library; without the tag the
// package is pure Go, and says [ErrAbsent] where MPI is needed.
//
//	started, err := mpi.Detect()              // nil: no mpirun, no srun
//	p, err := mpi.Start(started)              // MPI_Init; once per process
//	cards, err := p.Exchange(card)            // what all have to say, by rank
//	ep, err := p.Open([]int{0, 1, 2, 3})      // ranks of the MPI world; all of them call it
//	ep.Bind(handler)
//	ep.Send(2, fabric.Frame{Data: bytes})
//	...
//	err = ep.Close()
//	err = p.Finalize()                        // when the others have closed, too
//
// An endpoint:
//
//	open → closed → faded
//
// closed is when Close has been called: nothing is delivered any more, but what others send is
// taken until all have closed. Then all that the endpoint had of MPI is given back, and it has
// faded. A process has one endpoint at a time.
//
// # Invariants
//
//   - At any time, at most one goroutine or thread of the process calls MPI: who has the seat
//     (MPI_THREAD_SERIALIZED).
//   - What a goroutine begins while another has the seat is queued, and done by whoever has it,
//     before the seat is free for long.
//   - MPI has memory of Go's only while a transfer is under way, and that is pinned until MPI is
//     done with it.
//   - No two transfers that a rank expects from one other rank at a time have the same MPI tag.
//   - done is called once; after a Forget that returns true, never.
//
// # Concurrency and blocking
//
// Any goroutine may call the methods of an endpoint. None of them waits for another rank but Close,
// for as long as [Linger]; nor do Look and the handler's calls. Start, Exchange, Open and Finalize
// are for all ranks to call in one order, and wait for all of them.
//
// # Lock order
//
//	Process.mu
//	the seat
//
// README.md beside the code has the protocol, its argument, and what it costs.
package mpi
