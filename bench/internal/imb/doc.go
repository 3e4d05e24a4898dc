// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package imb has the message benchmarks in the layout of the Intel MPI Benchmarks: point to point,
// blocking collectives, and nonblocking collectives with their overlap with computation.
//
// [Measure] runs on all ranks, over any fabric. Rank 0 reports a [Row] for each benchmark and size.
// A [Runner] starts ranks: as goroutines of this process, as processes by weft run, or, for
// comparison, the program bench/peers/mpi/imb.c under Open MPI and MPICH, which has the same
// operations, loops, checks and statistics and reports in the same form.
//
// The time of an operation is the mean over its repetitions at each rank. A row has the least, the
// greatest and the mean over the ranks. Contents are checked in a separate pass, whose time does
// not count.
package imb
