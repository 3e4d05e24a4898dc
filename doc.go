// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package weft is the root of a task-dataflow runtime with communication. It has no code; import
// its parts:
//
//	weft/deps      the accesses of tasks: what a task reads and writes
//	weft/task      the task runtime: spawn, wait, events
//	weft/comm      ranks, messages, collectives
//	weft/rma       windows: put, get, accumulate, fence
//	weft/nam       windows in network-attached memory, which outlive the program
//	weft/tampi     binds operations of comm and rma to tasks
//	weft/trace     recordings of a run
//	weft/observe   statistics, profiles, graphs and a live page
//
// Begin with README.md; docs/architecture.md describes the parts. The tests in this directory check
// rules for the whole repository: which package may import which, and what every file and page must
// contain.
package weft
