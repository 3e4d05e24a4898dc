// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package keepalive lets the kernel detect that the machine at the other end of a TCP connection,
// or the link to it, has vanished. A vanished machine sends nothing, so only a time limit can
// detect it.
//
//	after, err := env.DeadAfter.Value()
//	keepalive.Enable(conn, after) // conn fails within that time
//
// The kernel detects a vanished peer in one of two ways:
//
//   - Unacknowledged data: the kernel retransmits it, and fails the connection when the data has
//     been unacknowledged for [Times.Silence]. (A system without such a limit may take minutes.)
//   - An idle connection: the kernel probes the peer, first after Times.Idle without traffic, then
//     every Times.Interval. It fails the connection at the first probe after Times.Silence or,
//     where the system has no such limit, after Times.Count unanswered probes.
//
// Silence is four fifths of the whole time, and the interval between probes is an eighth of it, so
// both ways are over in time. The kernel counts the times of probes in whole seconds, which may
// lengthen very short ones.
//
// A process that ends or is killed is a different case: its kernel reports that at once. A stopped
// process is not detected, since its kernel still answers. Once its kernel accepts no more data,
// though, the process counts as vanished after Silence, on systems with that limit. So Enable is
// not for connections within one machine.
//
// All functions may be called by any goroutine, and none blocks.
package keepalive
