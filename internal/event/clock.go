// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Ticks reads the clock of recordings: the processor's time-stamp counter if its rate is constant
// and equal on all processors, otherwise Go's monotonic clock in nanoseconds. The processor may
// reorder the reading with the instructions around it: readings on two processors may contradict
// the order of the recorded actions by some hundreds of nanoseconds.
func Ticks() int64 {
	if counterIsGood {
		return counter()
	}
	return int64(time.Since(origin))
}

// ClockName says which clock Ticks reads.
func ClockName() string {
	if counterIsGood {
		return counterName
	}
	return "monotonic"
}

// origin is the time at which clocks of this process begin.
var origin = time.Now()

// Moment is one instant on two clocks.
type Moment struct {
	Ticks int64
	// nanoseconds since 1970: the wall clock at the start of the process, plus the monotonic clock
	Wall int64
}

// now reads both clocks. It reads the counter between two readings of the monotonic clock, and uses
// the closest of five tries.
func now() Moment {
	var tries [5]reading
	for i := range tries {
		tries[i] = reading{before: time.Since(origin), ticks: Ticks(), after: time.Since(origin)}
	}
	return closest(tries[:])
}

// reading is a reading of the counter between two readings of the monotonic clock.
type reading struct {
	before, after time.Duration // since origin
	ticks         int64
}

func closest(tries []reading) Moment {
	r := slices.MinFunc(tries, func(x, y reading) int { return cmp.Compare(x.after-x.before, y.after-y.before) })
	return Moment{r.ticks, origin.UnixNano() + int64(r.before+r.after)/2}
}

// Clock converts ticks to nanoseconds since the recording began. Any goroutine may use it.
type Clock struct {
	first Moment
	rate  atomic.Uint64 // nanoseconds per tick, times 1<<32
}

// calibration is how long a new clock compares the two clocks (guess: the rate is then right to 1
// in 10,000, and improves with each later moment).
const calibration = time.Millisecond

func newClock() *Clock {
	c := &Clock{first: now()}
	if counterIsGood {
		for time.Since(origin) < time.Duration(c.first.Wall-origin.UnixNano())+calibration {
		}
	}
	c.refine(now())
	return c
}

// refine computes the rate from the first moment to m.
func (c *Clock) refine(m Moment) {
	rate := 1.0
	if counterIsGood && m.Ticks > c.first.Ticks {
		rate = float64(m.Wall-c.first.Wall) / float64(m.Ticks-c.first.Ticks)
	}
	c.rate.Store(uint64(rate * (1 << 32)))
}

// Since returns the time in nanoseconds from the beginning of the recording to ticks.
func (c *Clock) Since(ticks int64) int64 { return c.Span(ticks - c.first.Ticks) }

// Span converts a number of ticks to nanoseconds.
func (c *Clock) Span(ticks int64) int64 {
	return int64(float64(ticks) * float64(c.rate.Load()) / (1 << 32))
}
