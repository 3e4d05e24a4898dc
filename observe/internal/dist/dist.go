// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package dist keeps distributions of lengths of time: count, sum, least, most, and a histogram
// from which quantiles are told within a sixteenth of their value. They are noted in ticks of some
// clock, and told as durations, by the rate that is known of it then. The zero value is empty and
// ready. A D has one writer at a time; nothing in it blocks or allocates.
package dist

import (
	"math"
	"math/bits"
	"time"
)

const (
	sub     = 3 // bits: an octave is divided into 8 bins
	buckets = (64 - sub) << sub
)

// A D is a distribution.
type D struct {
	N         uint64
	Rate      float64 // nanoseconds per tick; 0 is 1
	sum       int64
	low, high int64
	bins      [buckets]uint64
}

// Add notes n times the same length of time. One below zero, which a clock that goes back can make,
// counts as zero.
func (d *D) Add(x int64, n uint64) {
	x = max(x, 0)
	if d.N == 0 || x < d.low {
		d.low = x
	}
	d.high = max(d.high, x)
	d.N += n
	d.sum += x * int64(n)
	d.bins[bin(uint64(x))] += n
}

// Merge adds what o has noted.
func (d *D) Merge(o *D) {
	if o.N == 0 {
		return
	}
	if d.N == 0 || o.low < d.low {
		d.low = o.low
	}
	d.high = max(d.high, o.high)
	d.N += o.N
	d.sum += o.sum
	for i, n := range &o.bins {
		d.bins[i] += n
	}
}

// Multiply makes d stand for f times as much as it has noted.
func (d *D) Multiply(f float64) {
	times := func(n uint64) uint64 { return uint64(math.Round(float64(n) * f)) }
	d.N, d.sum = times(d.N), int64(float64(d.sum)*f)
	for i, n := range &d.bins {
		if n > 0 {
			d.bins[i] = times(n)
		}
	}
}

func (d *D) told(x int64) time.Duration {
	if d.Rate == 0 {
		return time.Duration(x)
	}
	return time.Duration(float64(x) * d.Rate)
}

// Sum is all of it.
func (d *D) Sum() time.Duration { return d.told(d.sum) }

// Min is the least; zero if there is nothing.
func (d *D) Min() time.Duration { return d.told(d.low) }

// Max is the most.
func (d *D) Max() time.Duration { return d.told(d.high) }

// Mean is the average; zero if there is nothing.
func (d *D) Mean() time.Duration {
	if d.N == 0 {
		return 0
	}
	return d.told(d.sum / int64(d.N))
}

// Quantile returns a duration that a share q of what was noted does not exceed, give or take a
// sixteenth; never less than Min or more than Max.
func (d *D) Quantile(q float64) time.Duration {
	if d.N == 0 {
		return 0
	}
	rank := uint64(q * float64(d.N))
	var seen uint64
	for i, n := range &d.bins {
		if seen += n; seen > rank {
			return d.told(min(max(middle(i), d.low), d.high))
		}
	}
	return d.told(d.high)
}

// bin is the place of x: below 8 one for each number, then 8 for each octave.
func bin(x uint64) int {
	if x < 1<<sub {
		return int(x)
	}
	e := bits.Len64(x) - 1 - sub
	return (e+1)<<sub + int(x>>e)&(1<<sub-1)
}

// middle is the middle of what is in a bin.
func middle(i int) int64 {
	if i < 1<<sub {
		return int64(i)
	}
	e := i>>sub - 1
	low := uint64(1<<sub+i&(1<<sub-1)) << e
	return int64(low + (uint64(1)<<e)/2)
}
