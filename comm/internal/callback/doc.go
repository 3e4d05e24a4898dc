// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package callback runs the callbacks of requests so that the stack stays shallow.
//
// A list of callbacks goes through these states:
//
//	run ──R1: active < depthLimit──→ active ──all callbacks have returned──→ done
//	 │                                 ↑
//	 └──R2: otherwise──→ backlog ──────┘ an active call takes it
//
// A callback may start operations, which complete other requests, which have callbacks. Without a
// limit, a chain of messages between two ranks is a recursion as deep as the chain is long. So
// callbacks go through a [Trampoline]. At most depthLimit calls of run are active in a Trampoline
// at a time, nested in each other or concurrent. Further lists go to its backlog, which the active
// calls run before they return. Callbacks do not block, so a list in the backlog waits only for a
// short time. Most calls are at depth one and defer nothing. If all lists were deferred, another
// goroutine would have to run them.
//
// The steps, which are marked in the code:
//
//	run                                             leave
//	R1 if active < depthLimit: active++, work       L1 active--
//	R2 otherwise append to the backlog              L2 if there is a backlog: R1 again
//	R3 and R1 again, for whatever is in the backlog
//
// No list stays in the backlog for ever. R2's append and the L1 of the last active call are in one
// order. If R2 is before L1, that call's L2 finds the backlog. If R2 is after L1, R3 finds room, or
// finds other active calls, for which the same holds.
//
// Bad schedules:
//
//   - Without R3: the last active call finds the backlog empty and leaves. The list is appended,
//     and no call is active.
//   - Without L2: the last active call has read the backlog for the last time. The list is
//     appended, and R3 finds no room. The call leaves.
//   - R1 is a compare-and-swap. If it were an addition that is undone on failure, other calls would
//     find no room while the addition lasts, although there is room.
//
// The trampolines of a job are a [Set]. A call uses one that depends on the address of its
// goroutine's stack. So goroutines of different processors rarely share one. A chain stays on its
// goroutine, and nests at most depthLimit times in each of the few trampolines that its stack
// reaches.
package callback
