// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package smcoll runs collectives of ranks that share memory, without messages. Each rank publishes
// its contribution to a collective in a cell. Any rank that finds all the contributions that
// another rank needs can compute that rank's result. README.md has the protocol and its argument.
//
// A [Segment] is the shared memory of one communicator. It is on the heap if all ranks of the
// communicator are in one process, or mapped if they are processes of one machine. A [Member] is
// one rank's access to it. Any goroutine may call a Member's methods.
package smcoll
