// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGrowth(t *testing.T) {
	series := func(n int, at func(i int) Sample) (l Series) {
		for i := range n {
			l = append(l, at(i))
		}
		return l
	}
	for name, c := range map[string]struct {
		l    Series
		want string
	}{
		"few":        {series(7, func(i int) Sample { return Sample{uint64(i) << 30, 10, 10} }), ""},
		"constant":   {series(100, func(int) Sample { return Sample{50 << 20, 10, 10} }), ""},
		"noise":      {series(100, func(i int) Sample { return Sample{uint64(5+i%3) << 20, 10 + i%7, 10 + i%3} }), ""},
		"start":      {series(100, func(i int) Sample { return Sample{uint64(min(i, 20)) << 20, 10, 10} }), ""},
		"heap":       {series(100, func(i int) Sample { return Sample{uint64(i) << 18, 10, 10} }), "live heap"},
		"goroutines": {series(100, func(i int) Sample { return Sample{1, i, 10} }), "goroutines"},
		"files":      {series(100, func(i int) Sample { return Sample{1, 10, i} }), "descriptors"},
	} {
		if got := c.l.Growth(); c.want == "" {
			require.Empty(t, got, name)
		} else {
			require.Contains(t, got, c.want, name)
		}
	}
}

var kept [][]byte

// Growth finds a program that keeps ever more, and passes one that does not. Each step has its own
// sample, also on a slow machine. (Samples taken by time were too few on a busy machine.)
func TestEach(t *testing.T) {
	const steps = 64
	for _, keeps := range []bool{false, true} {
		kept = nil
		tick := make(chan time.Time)
		stop := each(func() <-chan time.Time { return tick })
		for range steps {
			b := make([]byte, 256<<10)
			if keeps {
				kept = append(kept, b)
			}
			tick <- time.Time{} // taken once the sample before this one is complete
		}
		l := stop()
		require.Len(t, l, steps+1)
		if got := l.Growth(); keeps {
			require.Contains(t, got, "live heap")
		} else {
			require.Empty(t, got)
		}
	}
	kept = nil
}

// Every takes samples by itself, and none after stop.
func TestEvery(t *testing.T) {
	before := collections()
	stop := Every(time.Microsecond)
	require.Eventually(t, func() bool { return collections() >= before+3 }, time.Minute, time.Millisecond)
	l := stop()
	require.GreaterOrEqual(t, len(l), 3)
	after := collections()
	time.Sleep(5 * time.Millisecond)
	require.Equal(t, after, collections())
	for _, s := range l {
		require.Positive(t, s.Heap)
		require.Positive(t, s.Goroutines)
	}
}

// collections returns how often the program has asked for a collection.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumForcedGC
}
