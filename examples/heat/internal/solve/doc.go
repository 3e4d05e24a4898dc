// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package solve runs the time steps of heat on the ranks, in three variants.
//
//	mpi       each rank sweeps its blocks in order; halo rows by blocking Send and Recv, so the
//	          ranks form a pipeline
//	itampi    a task per block and step, a task per message; messages by Isend and Irecv, bound
//	          by Iwait
//	tampirma  the same tasks; halo rows by puts into windows, between fences that are bound by Iwait
//
// # Order of the tasks
//
// A cell of step t needs its northern and western neighbours of step t, and its southern and
// eastern neighbours of step t-1. The same holds for blocks. Each block, and each piece of a ghost
// row, has a sentinel, which stands for its cells in the accesses of tasks:
//
//	compute (R,C)        in: the four neighbours' sentinels     inout: its own
//	send first row up    in: sentinel (1,C)                     before compute (1,C) of the same step
//	recv upper ghost     out: sentinel (0,C)                    before compute (1,C)
//	recv lower ghost     out: sentinel (n+1,C)                  before compute (n,C)
//	send last row down   in: sentinel (n,C)                     after compute (n,C)
//	snapshot             in: all sentinels                      see snapshot.go
//
// The order of creation decides the meaning of the accesses. The creator waits only at the very
// end, so time steps overlap as far as the data allows. Tasks are not created step by step: see
// order.go.
//
// # State
//
// A Solver belongs to one rank. Only the rank's goroutine calls its methods. Its tasks run on any
// slot of the shared task runtime, and access the grid only as declared.
package solve
