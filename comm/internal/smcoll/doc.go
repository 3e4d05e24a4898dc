// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package smcoll is where ranks that see each other's memory make collectives without messages.
// Each shows its part of a collective in a place of its own; any rank that finds all parts there
// which another one needs can compute that one's result. README.md has the protocol and its
// argument.
//
// A [Segment] is the memory: of the process, for a communicator whose ranks are all in it, or
// mapped, for processes of one machine. A [Member] is a rank's; its methods may be called by any
// goroutine.
package smcoll
