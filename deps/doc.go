// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package deps orders tasks by what they declare to do with objects: it is the
// dependency engine of weft, without goroutines, clock or I/O.
//
// Users meet it as the accesses of a task, made by [In], [Out], [InOut], [Concurrent] and [Commutative], and by [Reduction.Reduce]:
//
//	var a, b float64
//	t.Spawn(fill, deps.Out(&a))                  // 1
//	t.Spawn(use, deps.In(&a))                    // 2: after 1
//	t.Spawn(use, deps.In(&a), deps.InOut(&b))    // 3: after 1, beside 2
//	t.Spawn(add, deps.Concurrent(&b))            // 4: after 3
//	t.Spawn(add, deps.Concurrent(&b))            // 5: after 3, beside 4
//	t.Spawn(step, deps.InOut(&a).Weak())         // 6: at once; its children that name a: after 2 and 3
//	t.Spawn(done, deps.In(&a), deps.In(&b))      // 7: after 4, 5 and what the children of 6 write in a
//
// # Meaning
//
// An object is an address. The children of one task that name the object form its chain, in
// the order in which the task made them. A reader (In) waits for the writers before it; a
// writer (Out, InOut) for all before it; neighbours in Concurrent form a group that runs together
// and is a writer to the rest. Neighbours in Commutative form such a group too, of which one task at
// a time has the object, in any order. Without the declarations the program is sequential, and with
// them each object sees what it would see then.
//
// The children of different tasks are ordered by what the parents declare. A child's first access to
// an object goes on where the parent's own access stands: it waits for what the
// parent's waits for. When the parent's body ends, what follows the parent waits for those of its children
// that use the object, and only for them. A weak access is for just that: the task does not use the object
// and does not wait, but its children may, and do. An object that the parent does not declare has a
// chain of its own among the children, with no order to the outside.
//
// Several accesses of one task to one object are one: of their mode if all have
// the same, else InOut; weak if all are weak. A reduction is its task's only access to the object.
//
// # Ranges
//
// [Slice] makes accesses to ranges of memory, which are ordered byte by byte:
//
//	t.Spawn(fill, deps.Slice(v[0:50]).Out())
//	t.Spawn(fill, deps.Slice(v[50:100]).Out())     // beside the first
//	t.Spawn(use, deps.Slice(v[40:60]).In())        // after both
//	t.Spawn(step, deps.InOut(&v[0]))               // after the first
//
// To a range, an object is the bytes of its variable. Among objects only the address counts, until a sibling
// names the first range, or if the parent has declared one: then objects are their bytes to each other as well. What is said above of
// objects holds for each byte: groups, weak accesses, early release, combination. Release may give up a part of a range.
//
// A parent that has declared an object gives it up as a whole, even if its children name ranges of it. Several objects that are
// named by one address before the first range, such as a struct and its first field, count as the largest of them, until they are over.
//
// # For runtimes
//
// A runtime embeds a [Node] in its task and calls Register, Release, Finish and Retire, each with
// the [Flow] of the goroutine that calls; what became ready or free is taken from the Flow afterwards.
// The states of a node:
//
//	new ──Register──► waiting ──last token──► ready: runs ──Finish──► given up ──Retire──► over
//	 ▲                   │ (true: ready at once)  ▲                                         │
//	 │                   └────────────────────────┘                                         │
//	 └────────────── Retire says so, or NextFree, when nothing refers to it ─────────────────┘
//
// A node with Commutative accesses has one state more: when it is ready, [Node.Exclusive] is true, and the runtime calls Acquire,
// at once or later, before the task runs; if the objects are not free, the node comes out of NextReady a second time, with them.
//
// Concurrency: a Flow belongs to one goroutine at a time. Register(child) and Release on one
// node are for its body alone, one call at a time; Finish comes after all of them, Retire after Finish
// and after the Retire of all children. Everything else may run at the same time, on any goroutine. No
// call blocks, but for the locks that the exclusion and ranges are guarded by for a few instructions, and none recurses: a call takes a constant stack, however long a chain or deep a nest is.
//
// Memory: a node has room for five accesses, and keeps what more of them need. It is best put at the beginning of a cache line (README.md, "Where
// things lie"), and must not be copied. A node is free at most once for each
// Register, by Retire or by NextFree, when no other access and no call can reach it any more. Nodes with weak accesses or
// groups, and those around them, may be left to the garbage collector instead (README.md, "Late messages"),
// so a runtime must not count on each node's return. Declared objects are kept alive by the node until it
// is registered again.
//
// # Invariants
//
//   - The bits of an access's state are set once and never cleared: each effect becomes true once, for the
//     goroutine whose bit made it true, which carries it out.
//   - An access has at most one successor, one first child, one message of each kind for each port.
//   - An access that is the last of its chain in an open domain is not at rest.
//   - Tokens reach successor and child before the task is told that it may start.
//   - The write token implies the read token and the opening of the group.
//
// README.md has the protocols, the bad schedules that they prevent, and the proof.
package deps
