// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import "time"

// The one budget for looking. Times are since something was found last.
const (
	// lookFor is how long a waiter polls before it sleeps. To be woken takes 20 to 100 µs: two
	// ranks that take turns, and both have been woken once, would be for ever if they waited for
	// little more. It is as long where ranks share processors: with 50 µs, four ranks on two took
	// twice as long for an exchange over TCP, and ten times for one by memory.
	lookFor = 200 * time.Microsecond
	// midwayFor is how much longer a waiter polls while pieces of a transfer are to come.
	midwayFor = 2 * time.Millisecond
	// watchFor is lookFor of a caller who waits for other ranks' memory: what keeps a rank that is
	// waited for from running, such as another program, mostly lasts longer than to sleep and be
	// woken, so it waits for twenty times that. It bounds what it uses for nothing.
	watchFor = time.Millisecond
	// sleeperFor is how long the goroutine of a doorbell polls when it is up, and sleeperMidway if
	// it has the only processor and pieces of a transfer are to come: if a goroutine computes
	// there, Go's runtime takes the processor from it only every ten milliseconds.
	sleeperFor, sleeperMidway = 20 * time.Microsecond, 100 * time.Microsecond
	// yieldAfter is for how long a waiter keeps the processor from other processes, where each rank
	// has one: longer than an answer takes, since on a busy machine it gets the processor back too
	// late. But the kernel may have put what wakes up elsewhere on this one: with 25 µs, an answer
	// of a rank that sleeps took 3 µs longer.
	yieldAfter = 8 * time.Microsecond
	// goroutinesAfter is for how long it keeps the processor from goroutines of its own process:
	// rarely, since that wakes a thread each time where Go has another processor.
	goroutinesAfter = 50 * time.Microsecond
	// timeEvery is how many polls in vain it takes until it looks at the time, a power of two;
	// where ranks are crowded, others have their turn then.
	timeEvery, timeEveryCrowded = 32, 2
	// asideEvery is how many polls of the sources that are cheap to poll come before one of the
	// others.
	asideEvery = 16
	// disarmAfter is for how long a waiter finds nothing until it disarms what is dear to arm.
	disarmAfter = 20 * time.Microsecond

	// rapid is how soon one who polls is expected to come again if he did so before, and guardAfter
	// what happens otherwise. It is long, since while ranks poll rapidly the guard costs them a
	// moment each time.
	rapid      = 50 * time.Microsecond
	guardAfter = time.Millisecond
	// othersWait is for how long one that has given up, and so sleeps, is thought to do so.
	othersWait = time.Millisecond
	// testsAfter is how many polls of a loop find nothing until it counts as one that polls for
	// long: a few, since to arm and to disarm dearly are system calls.
	testsAfter = 8
)

// How many tries of a loop it takes until other goroutines get the processor. Guesses, but for the
// first.
const (
	// yieldCrowded is for ranks that share a processor of Go's: the one that is waited for cannot
	// run otherwise. Ranks that have one each yield after as many tries as there are processors:
	// two may be on one processor all the same, and all that yield take one lock of Go's.
	yieldCrowded = 1
	// yieldSingle is for the rank of a process with one processor of Go's, which other goroutines
	// need as well.
	yieldSingle = 64
	// yieldAlone is for the rank of a process with more, some 50 µs: a yield wakes a thread for a
	// processor that is idle.
	yieldAlone = 1024
)

// A loop polls so many times until another process gets its turn, and so many of these are between
// two turns of another goroutine.
const triesCrowded, triesAlone, triesHere = 2, 2048, 64

// readEvery is how many tries it takes until readers get the processor.
const readEvery = 16
