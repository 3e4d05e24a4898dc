// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package explore runs a small concurrent program in every order of its steps, and reports an order
// in which the program fails.
//
// A step is one operation of package xatomic: on a word, a lock or a channel. The package has code
// only in builds with the tag explore, in which xatomic reports its operations; it is for tests. An
// example:
//
//	func TestExploreCounter(t *testing.T) {
//		explore.Test(t, explore.Config{}, func(r *explore.Run) {
//			c := new(counter)                    // made anew for each order
//			r.Name("counter", c)                 // its words have names in reports
//			r.Go("a", func() { c.add() })
//			r.Go("b", func() { c.add() })
//			r.End(func() error { return c.verify() }) // when no goroutine can continue
//		})
//	}
//
// The goroutines of a program are coroutines: one runs at a time, and before each step the explorer
// chooses the next. Apart from that choice the program must be deterministic. The explorer finds
// failed checks, panics, goroutines that wait for ever (lost wake-ups, deadlocks), runs that do not
// end, and memory that is used after it was freed. A failure is reported with the list of steps and
// with a script, by which -explore.replay runs that order again.
//
// Orders that differ only in the order of steps which do not conflict count as one: dynamic
// partial-order reduction with source sets and sleep sets. README.md describes the method, its
// limits, and the argument why it misses nothing.
//
// Only one goroutine may call the functions at a time, and a process runs one exploration at a
// time.
package explore
