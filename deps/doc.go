// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package deps declares the accesses of tasks to objects, by which the runtime orders the tasks. A
// task's accesses are made by [In], [Out], [InOut], [Concurrent] and [Commutative], by [Slice], and
// by [Reduction.Reduce]:
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
// An object is an address. The children of one task that name the object form its chain, in the
// order in which the task made them. A reader (In) waits for the writers before it; a writer (Out,
// InOut) waits for all accesses before it. Consecutive Concurrent accesses form a run: they run
// together, and the run is a writer to the other accesses. Consecutive Commutative accesses form a
// run too, in which one task at a time has the object, in any order. Without the declarations the
// program is sequential, and with them each task sees in each object what it would see then.
//
// The children of different tasks are ordered by what the parents declare. A child's first access
// to an object continues the parent's own access: it waits for what the parent's access waits for.
// When the parent's body ends, accesses after the parent's wait for those of its children that use
// the object, and only for them. Weak accesses are for this purpose: the task does not use the
// object and does not wait, but its children may, and do. An object that the parent does not
// declare has a separate chain among the children, without order to tasks outside.
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
// To a range, an object is the bytes of its variable. Among objects only the address counts, until
// a sibling names the first range; after that, or if the parent has declared a range, objects are
// their bytes to each other as well. What is said above of objects holds for each byte: runs, weak
// accesses, early release, combination. Release may give up a part of a range.
//
// A parent that has declared an object gives it up as a whole, even if its children name ranges of
// it. Several objects that are named by one address before the first range, such as a struct and
// its first field, count as the largest of them, until they are over.
//
// The engine that orders tasks is package internal/chain. Values of this package are constants to
// it: any number of goroutines may use one, except an [Op] whose functions share state.
package deps
