// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package callback runs the callbacks of requests so that the stack stays shallow.
//
// A callback may start operations, which complete other requests, which have callbacks. Without
// care, a chain of messages between two ranks is a recursion as deep as the chain is long. So
// callbacks go through a [Trampoline], in which at most depthLimit calls of Run are active at a
// time, nested in each other or side by side. What comes on top goes to its backlog, which the
// active calls work off before they return. They do not block, so a callback waits for a short time
// only.
//
// Always to defer would need somebody else who runs the callbacks, and the common depth is one.
//
// The trampolines of a job are a [Set]. A call takes one by where the stack of its goroutine lies:
// so goroutines of different processors rarely share one, and a chain, which stays on its
// goroutine, nests at most depthLimit times in each of the few that its stack reaches.
//
//	run                                             leave
//	R1 if active < depthLimit: active++, work       L1 active--
//	R2 otherwise append to the backlog              L2 if there is a backlog, R1 once more
//	R3 and R1 once more, for whatever waits
//
// Nothing waits for ever: the append of R2 and L1 are in one order. If R2 is before L1, L2 sees it.
// If it is after L1, R3 finds room, or others that are active, of whom the same holds. Without R3:
// the last active call finds the backlog empty and leaves; the list is appended, and nobody comes.
// Without L2: the last active call has looked at the backlog for the last time; the list is
// appended, R3 finds no room; the call leaves. R1 is a compare-and-swap, and no addition that is
// taken back: while it lasted, others would find no room that there is.
package callback
