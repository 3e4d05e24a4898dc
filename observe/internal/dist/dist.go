// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package dist keeps distributions of durations: count, sum, least, most, and a histogram from which quantiles are told within
// a sixteenth of their value. The zero value is empty and ready. A D has one writer at a time; nothing in it blocks or allocates.
package dist

import (
	"math/bits"
	"time"
)

const (
	sub     = 3 // bits: an octave is divided into 8 bins
	buckets = (64 - sub) << sub
)

// A D is a distribution.
type D struct {
	N        uint64
	Sum      time.Duration
	Min, Max time.Duration
	bins     [buckets]uint32
}

// Add notes one duration. One below zero, which a clock that goes back can make, counts as zero.
func (d *D) Add(x time.Duration) {
	x = max(x, 0)
	if d.N == 0 || x < d.Min {
		d.Min = x
	}
	d.Max = max(d.Max, x)
	d.N++
	d.Sum += x
	d.bins[bin(uint64(x))]++
}

// Merge adds what o has noted.
func (d *D) Merge(o *D) {
	if o.N == 0 {
		return
	}
	if d.N == 0 || o.Min < d.Min {
		d.Min = o.Min
	}
	d.Max = max(d.Max, o.Max)
	d.N += o.N
	d.Sum += o.Sum
	for i, n := range &o.bins {
		d.bins[i] += n
	}
}

// Mean is the average; zero if there is nothing.
func (d *D) Mean() time.Duration {
	if d.N == 0 {
		return 0
	}
	return d.Sum / time.Duration(d.N)
}

// Quantile returns a duration that a share q of what was noted does not exceed, give or take a sixteenth; never less than Min or
// more than Max.
func (d *D) Quantile(q float64) time.Duration {
	if d.N == 0 {
		return 0
	}
	rank := uint64(q * float64(d.N))
	var seen uint64
	for i, n := range &d.bins {
		if seen += uint64(n); seen > rank {
			return min(max(middle(i), d.Min), d.Max)
		}
	}
	return d.Max
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
func middle(i int) time.Duration {
	if i < 1<<sub {
		return time.Duration(i)
	}
	e := i>>sub - 1
	low := uint64(1<<sub+i&(1<<sub-1)) << e
	return time.Duration(low + (uint64(1)<<e)/2)
}
