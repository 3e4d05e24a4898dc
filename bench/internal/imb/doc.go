// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package imb is the message benchmarks in the layout of the Intel MPI Benchmarks: point to point,
// collectives, and collectives that are started and waited for, with what they leave for computing
// meanwhile.
//
// [Measure] is what the ranks do, over whatever connects them; rank 0 reports a [Row] per benchmark
// and size. A [Runner] starts ranks: as goroutines of this process, as processes by weft run, or,
// for comparison, the program bench/peers/mpi/imb.c under Open MPI and MPICH, which has the same
// operations, loops, checks and statistics and reports in the same form.
//
// A row's time of an operation is the mean over its repetitions at each rank; least, greatest and
// mean over the ranks are reported. Contents are checked in a pass of its own, whose time does not
// count.
package imb
