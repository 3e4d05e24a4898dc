// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package order determines which tasks wait for which: it states the meaning of package deps a
// second time, as naively as possible. It has a tree of tasks, in which each access points at the
// access before it, and one question, which is answered by walking the tree. It stores only the
// declarations of the program, in the order of its spawns. The caller of the question says which
// accesses are given up by now. So one walk answers what a task waits for now, what it will have
// waited for in the end, and whether an engine was right to start it.
//
// An access gets a read token and a write token by the chain of its memory; see
// internal/chain/README.md, "The argument". Each of them waits for this:
//
//	may read    that the access before passes read, or, for the first, that the parent's may read
//	may write   that the access before is over, or, for the first, that the parent's may write
//	may join    of a run member: that the access before may join, if it is in the same run;
//	            else may write
//	passes read for a reader: may read. Else it is given up, the last access of the task's children
//	            passes read, and may read
//	is over     it is given up, the last access of the task's children is over, and may write
//
// A task starts when each of its strong accesses may read, join or write, by its mode. The walk can
// stop where what it found implies the rest: a strong access has all that it needed if its task has
// started, if it has a child, or if it is given up.
//
// Ranges are cut where the accesses to them begin and end, so that each piece has a separate chain,
// and the walk along a chain is for the bytes in question. An object that was declared before any
// sibling declared a range stays one piece: it passes on all of its bytes at once.
//
// Neighbours that run together and have the same bytes are kept as one Run. A caller that asks only
// about later tasks reports what is past (Start, Forget, Leave), and the tree drops it: see
// past.go. Lint mode asks while bodies run, so this package is one of race.Packages and may use
// only what these may: see "Lint mode" in the README of package task.
//
// A tree must not be used by two goroutines at the same time.
package order
