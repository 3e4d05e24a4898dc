// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package chain is the dependency engine of weft: it orders tasks by their accesses to objects and
// to ranges of memory. It has no goroutines, no clock and no I/O. Package deps defines what
// accesses mean and has the constructors for users; internal/order states the same order naively,
// as an oracle.
//
// A runtime embeds a [Node] in its task and calls Register, Release, Finish and Retire. Each call
// gets the [Flow] of the calling goroutine; afterwards the runtime takes from the Flow the nodes
// that became ready or free. The states of a node:
//
//	new ──Register──► waiting ──last token──► ready: runs ──Finish──► given up ──Retire──► over
//	 ▲                   │ (true: ready at once)  ▲                                         │
//	 │                   └────────────────────────┘                                         │
//	 └────────── memory may be reused: Retire returns true, or NextFree returns it ─────────┘
//
// A node with Commutative accesses has one more state. When it is ready, [Node.Exclusive] is true,
// and the runtime calls Acquire, at once or later, before the task runs. If the objects are not
// free, NextReady returns the node a second time, and it then holds them.
//
// Concurrency: a Flow belongs to one goroutine at a time. Only the body of a node may call
// Register(child) and Release on it, one call at a time. Finish comes after all of these calls, and
// Retire after Finish and after the Retire of all children. Everything else may run at the same
// time, on any goroutine. No call blocks, except for the locks of the exclusion table and of
// ranges, which are held for a few instructions. No call recurses: a call takes constant stack,
// however long a chain or deep a nest is.
//
// Memory: a node has room for five accesses, and allocates memory for more. It should begin at a
// cache line (README.md, "Memory layout") and must not be copied. A node becomes free at most once
// for each Register, by Retire or by NextFree, when no other access and no call can reach it any
// more. Some nodes with weak accesses or in Concurrent runs, and some of their neighbours, are left
// to the garbage collector instead (README.md, "Late messages"), so a runtime must not rely on
// getting every node back. The node keeps the declared objects alive until Retire.
//
// # Invariants
//
//   - Bits of an access's state are set once and never cleared. So each effect becomes true once;
//     the goroutine that set the bit carries the effect out.
//   - An access has at most one successor, one first child, and one message of each kind for each
//     port.
//   - An access that is the last of its chain in an open domain is not at rest.
//   - Tokens reach the successor and the child before the task is allowed to start.
//   - The write token implies the read token and the opening of the run.
//
// README.md has the protocols, the bad schedules that they prevent, and the proof.
package chain
