// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package dist keeps distributions of lengths of time: count, sum, minimum, maximum, and a
// histogram, whose quantiles are accurate to a sixteenth of their value. Lengths are added in ticks
// of a clock, and returned as durations, by the rate of the clock that is known then. The zero
// value is an empty distribution. A D has one writer at a time; nothing in it blocks or allocates.
package dist

import (
	"math"
	"math/bits"
	"time"
)

const (
	subBits = 3 // bits: an octave is divided into 8 bins
	buckets = (64 - subBits) << subBits
)

// A D is a distribution.
type D struct {
	N         uint64
	Rate      float64 // nanoseconds per tick; 0 is 1
	sum       int64
	low, high int64
	bins      [buckets]uint64
}

// Add adds the length x, n times. A negative length, from a clock that went back, counts as zero.
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

// Merge adds the lengths of o.
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

// Multiply multiplies the number of lengths by f.
func (d *D) Multiply(f float64) {
	times := func(n uint64) uint64 { return uint64(math.Round(float64(n) * f)) }
	d.N, d.sum = times(d.N), int64(float64(d.sum)*f)
	for i, n := range &d.bins {
		if n > 0 {
			d.bins[i] = times(n)
		}
	}
}

func (d *D) duration(x int64) time.Duration {
	if d.Rate == 0 {
		return time.Duration(x)
	}
	return time.Duration(float64(x) * d.Rate)
}

// Sum is the sum of the lengths.
func (d *D) Sum() time.Duration { return d.duration(d.sum) }

// Min is the minimum; zero if d is empty.
func (d *D) Min() time.Duration { return d.duration(d.low) }

// Max is the maximum; zero if d is empty.
func (d *D) Max() time.Duration { return d.duration(d.high) }

// Mean is the average; zero if d is empty.
func (d *D) Mean() time.Duration {
	if d.N == 0 {
		return 0
	}
	return d.duration(d.sum / int64(d.N))
}

// Quantile returns a duration that a share q of the lengths does not exceed, accurate to a
// sixteenth. It is never less than Min or more than Max.
func (d *D) Quantile(q float64) time.Duration {
	if d.N == 0 {
		return 0
	}
	rank := uint64(q * float64(d.N))
	var seen uint64
	for i, n := range &d.bins {
		if seen += n; seen > rank {
			return d.duration(min(max(middle(i), d.low), d.high))
		}
	}
	return d.duration(d.high)
}

// bin returns the index of the bin of x: below 8 one bin for each number, then 8 for each octave.
func bin(x uint64) int {
	if x < 1<<subBits {
		return int(x)
	}
	e := bits.Len64(x) - 1 - subBits
	return (e+1)<<subBits + int(x>>e)&(1<<subBits-1)
}

// middle returns the middle of bin i.
func middle(i int) int64 {
	if i < 1<<subBits {
		return int64(i)
	}
	e := i>>subBits - 1
	low := uint64(1<<subBits+i&(1<<subBits-1)) << e
	return int64(low + (uint64(1)<<e)/2)
}
