// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ticks reads the counter if it is good, otherwise the monotonic clock. ClockName says which.
func TestTicks(t *testing.T) {
	read := func() int64 { return int64(time.Since(origin)) }
	want := "monotonic"
	if counterIsGood {
		read, want = counter, counterName
	}
	require.Equal(t, want, ClockName())
	before := read()
	ticks := Ticks()
	require.LessOrEqual(t, before, ticks)
	require.LessOrEqual(t, ticks, read())
}

// A moment lies between earlier and later readings of both clocks.
func TestMoment(t *testing.T) {
	wall := func() int64 { return origin.UnixNano() + int64(time.Since(origin)) }
	ticks, w := Ticks(), wall()
	m := now()
	require.LessOrEqual(t, ticks, m.Ticks)
	require.LessOrEqual(t, m.Ticks, Ticks())
	require.LessOrEqual(t, w, m.Wall)
	require.LessOrEqual(t, m.Wall, wall())
}

// closest chooses the reading with the closest bounds, and the middle between them.
func TestClosest(t *testing.T) {
	tries := []reading{{10, 20, 1}, {30, 36, 2}, {50, 54, 3}, {60, 64, 4}, {70, 90, 5}}
	require.Equal(t, Moment{3, origin.UnixNano() + 52}, closest(tries))
	require.Equal(t, Moment{2, origin.UnixNano() + 33}, closest(tries[:2]))
	require.Equal(t, Moment{4, origin.UnixNano() + 62}, closest(tries[3:]))
}

// The rate of a clock follows from its first moment and a later one. If no time has passed between
// them, ticks are nanoseconds.
func TestClock(t *testing.T) {
	for _, c := range []struct {
		ticks, wall int64
		rate        int64 // if ticks are not nanoseconds
	}{{200, 1400, 4}, {110, 1030, 3}, {101, 1001, 1}, {100, 5000, 1}, {99, 400, 1}} {
		k := Clock{first: Moment{100, 1000}}
		k.refine(Moment{c.ticks, c.wall})
		if !counterIsGood {
			c.rate = 1
		}
		require.Equal(t, 50*c.rate, k.Span(50), "%v", c)
		require.Equal(t, 50*c.rate, k.Since(150), "%v", c)
		require.Equal(t, -50*c.rate, k.Since(50), "%v", c)
	}
}

// A new clock has compared both clocks for at least the time of calibration.
func TestNewClock(t *testing.T) {
	k := newClock()
	m := now()
	if counterIsGood {
		require.GreaterOrEqual(t, m.Wall-k.first.Wall, int64(calibration))
	}
	require.NotZero(t, k.rate.Load())
	require.Positive(t, k.Since(m.Ticks))
}
