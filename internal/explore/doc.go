// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package explore runs a small concurrent program in every order of its steps, and says which order
// goes wrong.
//
// A step is one operation of package xatomic: on a word, a lock or a channel. The package has code
// only in builds with the tag explore, in which xatomic reports its operations; it is for tests.
// This is one:
//
//	func TestExploreCounter(t *testing.T) {
//		explore.Test(t, explore.Config{}, func(r *explore.Run) {
//			c := new(counter)                    // made anew for each order
//			r.Name("counter", c)                 // its words have names in reports
//			r.Go("a", func() { c.add() })
//			r.Go("b", func() { c.add() })
//			r.End(func() error { return c.verify() }) // when nobody can go on
//		})
//	}
//
// The goroutines of a program are coroutines: one runs at a time, and before each step the explorer
// chooses who is next. The program must be deterministic but for that. Found are failed checks,
// panics, goroutines that wait for ever (lost wake-ups, deadlocks), runs that do not end, and
// memory that is used when it is free. A failure comes with the list of steps and with a script, by
// which -explore.replay runs that order again.
//
// Orders that differ only in the order of steps which do not conflict are one: dynamic
// partial-order reduction with source sets and sleep sets. README.md has the method, what it does
// not see, and the argument why nothing is lost.
//
// The functions are for one goroutine at a time, and for one exploration at a time in a process.
package explore
