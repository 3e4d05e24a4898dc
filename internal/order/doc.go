// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package order says who waits for whom: the meaning of package deps, said once more and as
// naively as possible. It has a tree of tasks, in which each use of memory points at the one before
// it, and one question, which is answered by walking the tree. Nothing is stored but what the
// program has declared, in the order of its spawns; whether a use is given up by now the caller of
// the question says. So the same walk tells what a task waits for now, what it will have waited for
// in the end, and whether an engine that has started it was right.
//
// An access has a read and a write token, which come to it by the chain of its memory; see
// internal/chain/README.md, "The picture". Each of them waits for this:
//
//	may read    that the use before passes read, else the parent's use may read
//	may write   that the use before is over, else the parent's use may write
//	may join    of a group: that the one before may join, if it is of the same group; else may write
//	passes read for a reader: may read. Else it is given up, the last use of the task's children
//	            passes read, and may read
//	is over     it is given up, the last use of the task's children is over, and may write
//
// A task starts when each of its strong uses may read, join or write, by its mode. The way needs
// not go on where what was found implies the rest: a strong use of a task that has started has what
// it needed, and so has one that has a child, or is given up.
//
// Ranges are cut where the accesses to them begin and end, so that each piece has a chain of its
// own, and the way along it is for the bytes in question. An object that was declared before there
// was any range among its siblings is one piece for good: it passes on all of its bytes at once.
//
// Neighbours that go together and have the same bytes are kept as one run. A caller whose questions
// are about what comes says what is past (Start, Forget, Leave), and the tree leaves it out: see
// past.go. Lint mode asks while bodies run, so this package is one of race.Packages, with what
// these may not use: see "Lint mode" in the README of package task.
//
// A tree is not to be used by two goroutines at one time.
package order
