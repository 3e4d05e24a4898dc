//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"runtime"
	"time"
)

const (
	// leaveAfter is how many times a goroutine that gives up the turn polls a source that has
	// something again when it is armed.
	leaveAfter = 4
	// watchChecks is how many times Watch checks its condition before it takes the turn, which
	// costs as much as some of these checks.
	watchChecks, watchChecksCrowded = 100, 8
	// requestTries is how many times a waiter tries to take the turn that it has requested.
	requestTries = 1000
)

// woke reports whether there is a value in the channel that a waiter waits for.
func woke(ch <-chan struct{}) bool { return len(ch) > 0 }

// The time, and calls that take time. Tests replace them. pause is called where another goroutine
// of this process is about to act.
var (
	start          = time.Now()
	clock          = func() time.Duration { return time.Since(start) }
	yieldProcessor = giveWay
	pause          = runtime.Gosched
)

// giveWay yields the processor to another process. If here is set, it first yields to a goroutine
// of this process: that is rarely needed where Go has other processors, and each time it wakes a
// thread for one of them, perhaps at the cost of the process that the caller waits for.
func giveWay(here bool) {
	if here {
		runtime.Gosched()
	}
	yield()
}

// budget counts the time for which a goroutine polls and finds nothing, and yields meanwhile.
type budget struct {
	crowded bool
	// n is the number of polls; the budget reads the clock when n&mask is zero.
	n, mask  int
	since    time.Duration // first reading of the clock
	yielded  time.Duration // last yield to other processes
	yielded2 time.Duration // last yield to goroutines too
	now      time.Duration // last reading of the clock
}

func newBudget(crowded bool) budget {
	if crowded {
		return budget{crowded: true, mask: timeEveryCrowded - 1}
	}
	return budget{mask: timeEvery - 1}
}

// first reports whether no poll has been counted.
func (b *budget) first() bool { return b.n == 0 }

// over counts a poll that found nothing, and reports whether the budget long is exhausted.
func (b *budget) over(long time.Duration) bool {
	if b.n++; b.n&b.mask != 0 {
		return long == 0
	}
	return b.spent(long)
}

// spent reads the clock, yields if it is time, and reports whether the budget long is exhausted.
func (b *budget) spent(long time.Duration) bool {
	b.now = clock()
	if b.since == 0 {
		b.since, b.yielded, b.yielded2 = b.now, b.now, b.now
	}
	if b.crowded || b.now-b.yielded > yieldAfter {
		here := b.now-b.yielded2 > goroutinesAfter
		b.yielded = b.now
		if here {
			b.yielded2 = b.now
		}
		yieldProcessor(here)
	}
	return b.idleFor() > long
}

// idleFor returns how long no poll has found anything, as of the last reading of the clock.
func (b *budget) idleFor() time.Duration { return b.now - b.since }

// deadline bounds a wait for another goroutine.
type deadline struct{ until time.Time }

func newDeadline(d time.Duration) deadline { return deadline{time.Now().Add(d)} }

// pause waits a moment, and reports whether the deadline is still to come.
func (d deadline) pause() bool {
	time.Sleep(10 * time.Microsecond)
	return time.Now().Before(d.until)
}

// timer is the timer of the guard.
type timer struct{ t *time.Timer }

func newTimer(f func()) timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return timer{t}
}

func (t timer) start(d time.Duration) { t.t.Reset(d) }
func (t timer) stop()                 { t.t.Stop() }
