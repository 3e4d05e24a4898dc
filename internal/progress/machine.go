//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"runtime"
	"time"
)

const (
	// leaveAfter is how many times what has come meanwhile is delivered by one who gives the turn
	// up.
	leaveAfter = 4
	// glances are the looks of a caller who waits for other ranks' memory before it takes the turn,
	// which costs as much as some of them.
	glances, glancesCrowded = 100, 8
	// wantFor is how many times one asks a doorbell's goroutine to make way.
	wantFor = 1000
)

// woke reports whether there is something in the channel of a goroutine that polls while it waits
// for that.
func woke(ch <-chan struct{}) bool { return len(ch) > 0 }

// What takes time, which tests have pass by steps. pause is called where another goroutine of this
// process is about to do something.
var (
	start = time.Now()
	clock = func() time.Duration { return time.Since(start) }
	rest  = giveWay
	pause = runtime.Gosched
)

// giveWay gives up the processor to another process, and before to a goroutine of this one if it is
// to: that is rarely needed where Go has other processors, and wakes one of them each time, perhaps
// at the cost of the very process that is waited for.
func giveWay(here bool) {
	if here {
		runtime.Gosched()
	}
	yield()
}

// budget is for how long a goroutine polls in vain, and how it gives way meanwhile.
type budget struct {
	crowded bool
	// polls; the budget reads the clock when n has no bit of mask
	n, mask int
	// of the first look at the time; when others had their turn last: processes, goroutines
	since, yielded, yielded2 time.Duration
	now                      time.Duration // of the last look
}

func newBudget(crowded bool) budget {
	if crowded {
		return budget{crowded: true, mask: timeEveryCrowded - 1}
	}
	return budget{mask: timeEvery - 1}
}

// first reports whether no poll has been in vain.
func (b *budget) first() bool { return b.n == 0 }

// over counts a poll in vain, and reports whether that has lasted for long enough.
func (b *budget) over(long time.Duration) bool {
	if b.n++; b.n&b.mask != 0 {
		return long == 0
	}
	return b.spent(long)
}

// spent reads the clock, gives way to others if it is time, and reports whether the budget is over.
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
		rest(here)
	}
	return b.vain() > long
}

// vain returns how long it has lasted.
func (b *budget) vain() time.Duration { return b.now - b.since }

// deadline bounds a wait for another goroutine.
type deadline struct{ until time.Time }

func newDeadline(d time.Duration) deadline { return deadline{time.Now().Add(d)} }

// pause waits a moment, and reports whether there is time left.
func (d deadline) pause() bool {
	time.Sleep(10 * time.Microsecond)
	return time.Now().Before(d.until)
}

// timer is the guard's.
type timer struct{ t *time.Timer }

func newTimer(f func()) timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return timer{t}
}

func (t timer) start(d time.Duration) { t.t.Reset(d) }
func (t timer) stop()                 { t.t.Stop() }
