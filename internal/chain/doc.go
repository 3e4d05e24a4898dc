// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package chain is the dependency engine of weft, without goroutines, clock or I/O: it orders tasks
// by their accesses to objects and to ranges of memory. What accesses mean is said by package deps,
// which has the constructors for users; internal/order says the same naively, as an oracle.
//
// A runtime embeds a [Node] in its task and calls Register, Release, Finish and Retire, each with
// the [Flow] of the goroutine that calls; what became ready or free is taken from the Flow
// afterwards. The states of a node:
//
//	new ──Register──► waiting ──last token──► ready: runs ──Finish──► given up ──Retire──► over
//	 ▲                   │ (true: ready at once)  ▲                                         │
//	 │                   └────────────────────────┘                                         │
//	 └────────────── Retire says so, or NextFree, when nothing refers to it ─────────────────┘
//
// A node with Commutative accesses has one state more: when it is ready, [Node.Exclusive] is true,
// and the runtime calls Acquire, at once or later, before the task runs; if the objects are not
// free, the node comes out of NextReady a second time, with them.
//
// Concurrency: a Flow belongs to one goroutine at a time. Register(child) and Release on one node
// are for its body alone, one call at a time; Finish comes after all of them, Retire after Finish
// and after the Retire of all children. Everything else may run at the same time, on any goroutine.
// No call blocks, but for the locks that the exclusion and ranges are guarded by for a few
// instructions, and none recurses: a call takes a constant stack, however long a chain or deep a
// nest is.
//
// Memory: a node has room for five accesses, and keeps what more of them need. It is best put at
// the beginning of a cache line (README.md, "Where things lie"), and must not be copied. A node is
// free at most once for each Register, by Retire or by NextFree, when no other access and no call
// can reach it any more. Nodes with weak accesses or groups, and those around them, may be left to
// the garbage collector instead (README.md, "Late messages"), so a runtime must not count on each
// node's return. Declared objects are kept alive by the node until it is registered again.
//
// # Invariants
//
//   - The bits of an access's state are set once and never cleared: each effect becomes true once,
//     for the goroutine whose bit made it true, which carries it out.
//   - An access has at most one successor, one first child, one message of each kind for each port.
//   - An access that is the last of its chain in an open domain is not at rest.
//   - Tokens reach successor and child before the task is told that it may start.
//   - The write token implies the read token and the opening of the group.
//
// README.md has the protocols, the bad schedules that they prevent, and the proof.
package chain
