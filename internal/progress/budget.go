// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import "time"

// The poll budgets. Times count from the last poll that found something.
const (
	// pollFor is how long a waiter polls before it sleeps. It must exceed the time to wake a
	// goroutine (20 to 100 µs) by far: otherwise two ranks that exchange messages, once both have
	// been woken, put each other to sleep at every message. It is as long where ranks share
	// processors: with 50 µs, four ranks on two processors took twice as long for an exchange over
	// TCP, and ten times as long for one through memory.
	pollFor = 200 * time.Microsecond
	// midwayFor is pollFor in the middle of a transfer (Source.Midway).
	midwayFor = 2 * time.Millisecond
	// watchFor is pollFor of a caller that waits for other ranks' memory. Something keeps the other
	// rank from running, such as another program; mostly that lasts longer than to sleep and be
	// woken, so the caller waits for twenty times that. watchFor bounds the processor time wasted.
	watchFor = time.Millisecond
	// doorbellFor is how long a doorbell goroutine polls once woken. doorbellMidwayFor is the same
	// in the middle of a transfer, if there is no other processor: if a goroutine computes there,
	// Go's runtime takes the processor from it only every ten milliseconds.
	doorbellFor, doorbellMidwayFor = 20 * time.Microsecond, 100 * time.Microsecond
	// yieldAfter is how long a waiter polls before it yields to other processes, where each rank
	// has a processor. It is longer than an answer takes, since on a busy machine the waiter gets
	// the processor back too late. It is not longer still, since the kernel may have put a thread
	// that wakes up on this processor: with 25 µs, an answer of a sleeping rank took 3 µs longer.
	yieldAfter = 8 * time.Microsecond
	// goroutinesAfter is how long a waiter polls before it yields to goroutines of its own process.
	// It is long, since each such yield wakes a thread where Go has another processor.
	goroutinesAfter = 50 * time.Microsecond
	// timeEvery is how many polls that find nothing there are for each reading of the clock, a
	// power of two. Where ranks are crowded, each reading also yields.
	timeEvery, timeEveryCrowded = 32, 2
	// costlyPollEvery is how many polls of the cheap sources there are for each poll of the sources
	// that are costly to poll.
	costlyPollEvery = 16
	// disarmAfter is after how long without an arrival a waiter disarms the sources that are costly
	// to arm.
	disarmAfter = 20 * time.Microsecond

	// rapidWithin is how soon another poll is expected if the last two goroutines came within that
	// time. If none comes, the guard polls after guardAfter, which is long, since each start of the
	// guard costs ranks that poll rapidly a moment.
	rapidWithin = 50 * time.Microsecond
	guardAfter  = time.Millisecond
	// gaveUpFor is for how long a waiter that has given up is assumed to be asleep.
	gaveUpFor = time.Millisecond
	// loopAfter is after how many polls that find nothing a loop counts as a goroutine that polls
	// for long. It is small, since to arm or disarm a costly source is a system call.
	loopAfter = 8
)

// How many tries of a loop there are for each yield to other goroutines. Guesses, except
// yieldCrowded.
const (
	// yieldCrowded is for ranks that share a processor of Go's: otherwise the rank that the loop
	// waits for cannot run. Ranks with a processor each yield after as many tries as there are
	// processors: two ranks may be on one processor nevertheless, and all goroutines that yield
	// take one lock of Go's.
	yieldCrowded = 1
	// yieldSingle is for the rank of a process with one processor of Go's, which other goroutines
	// need too.
	yieldSingle = 64
	// yieldAlone is for the rank of a process with more processors, some 50 µs: a yield wakes a
	// thread for an idle processor.
	yieldAlone = 1024
)

// A loop yields to other processes after triesCrowded or triesAlone tries, and at each triesHere-th
// of these yields also to goroutines of its process.
const triesCrowded, triesAlone, triesHere = 2, 2048, 64

// readEvery is how many tries there are for each yield to readers (fabric.Costs.Readers).
const readEvery = 16
