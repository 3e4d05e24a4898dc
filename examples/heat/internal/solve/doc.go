// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package solve runs the time steps of heat on the ranks, in three variants.
//
//	mpi       each rank sweeps its blocks in order; halo rows by blocking Send and Recv, so the ranks form a pipeline
//	itampi    a task per block and step, a task per message; messages by Isend and Irecv, bound by Iwait
//	tampirma  the same tasks; halo rows by puts into windows, between fences that are bound by Iwait
//
// # Who waits for whom
//
// A cell of step t needs its northern and western neighbour of step t and its southern and eastern
// one of step t-1. Blocks inherit that. Each block has a sentinel, which stands for its cells in
// task accesses, and so has each piece of a ghost row:
//
//	compute (R,C)        in: the four neighbours' sentinels     inout: its own
//	send first row up    in: sentinel (1,C)                     before compute (1,C) of the same step
//	recv upper ghost     out: sentinel (0,C)                    before compute (1,C)
//	recv lower ghost     out: sentinel (n+1,C)                  before compute (n,C)
//	send last row down   in: sentinel (n,C)                     after compute (n,C)
//	snapshot             in: all sentinels                      see snapshot.go
//
// Order of creation decides the meaning of the accesses, and nothing waits but at the very end, so
// time steps overlap as far as the data allow. Creation is not step by step, though: see order.go.
//
// # State
//
// A Solver belongs to one rank. Its methods are called by the rank's goroutine; its tasks run
// wherever the shared task runtime puts them, and touch the grid only as their accesses say.
package solve
