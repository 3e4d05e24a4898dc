// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package weft is the root of a task-dataflow runtime and of the communication layer that such
// programs need. It has no code of its own; import the parts:
//
//	weft/deps    how a task says what it reads and writes
//	weft/task    the runtime: spawn, wait, events
//	weft/comm    ranks, messages, collectives
//	weft/rma     windows: put, get, accumulate, fence
//	weft/nam     windows in network-attached memory, which outlive the program
//	weft/tampi   binds what comm and rma complete to the tasks of task
//
// README.md is the way in, docs/architecture.md the map. The tests in this directory check what
// holds for the whole repository: who may import whom, what every file and page has to have.
package weft
