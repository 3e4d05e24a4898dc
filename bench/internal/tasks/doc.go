// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package tasks holds the micro-workloads of the task runtime: what one task costs, creation
// included, when its body does next to nothing.
//
// A workload is a [program]: objects, the bodies that touch them, and a check. Every peer runs the
// same bodies in the same order of creation, with the same check. Peers differ only in how they
// order the tasks:
//
//	sequential  plain calls in creation order: the cost of the bodies alone
//	goroutines  a goroutine per task, joined by a WaitGroup
//	channels    a goroutine per task that receives from the channels of its predecessors and closes its own
//	ants        the tasks of goroutines, submitted to a pool
//	errgroup    the tasks of goroutines, joined by an errgroup
//	libgomp     an OpenMP program of ours in C (bench/peers), run as a process of its own
//	libomp      the same program with clang's library
//	tbb         a program of ours in C++ for oneTBB: task groups, and flow graphs where there are
//	            dependencies
//
// The bodies write plain fields without locks or atomics, each in a cache line of its own. Two
// tasks that the peer failed to order lose an update or see a wrong version, and the check reports
// it. Bodies that can be built once per object are built before the clock starts, for every peer
// alike.
package tasks
