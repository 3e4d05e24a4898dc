// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// half is the efficiency of METG(50 %).
const half = 0.5

// narrow is the greatest ratio of the two grain sizes that the result is interpolated between. Ten
// measured curves differ from the straight line between such neighbours by less than from one run
// to the next.
const narrow = 1.2

// ErrUnreached is wrapped by the error of Search when no granularity within the limits is efficient
// enough.
var ErrUnreached = errors.New("50 % of the peak is not reached")

// A Reading is one grain size of a sweep.
type Reading struct {
	Iterations  int64   // of the kernel, in each task
	Granularity float64 // workers × time / tasks, in nanoseconds
	Efficiency  float64 // rate of iterations over the peak
}

// A Sweep has the readings of a search, in rising order of iterations, and its result.
type Sweep struct {
	// the base of efficiencies: nanoseconds per iteration, of all workers together
	Peak     float64
	Readings []Reading

	// METG is the smallest granularity, in nanoseconds, at which the efficiency is still one half.
	METG float64

	// Bound is set if even a single iteration is efficient enough, so that the true METG is at most
	// the one given.
	Bound bool
}

// Search finds the smallest granularity at which the efficiency is still one half:
//
//  1. From start iterations it doubles, up to limit, until the efficiency is reached.
//  2. If the first grain reached it, it halves until the efficiency is lost. One bad reading does
//     not end the halving: the efficiency is lost when it is missed twice in succession, or by far.
//  3. Between the smallest grain that is efficient enough and the next smaller one it bisects, each
//     time in the geometric mean, until the two are close to each other.
//  4. Between these it interpolates the logarithm of the granularity.
func Search(measure func(iterations int64) (Reading, error), start, limit int64) (Sweep, error) {
	var sweep Sweep
	take := func(n int64) (Reading, error) {
		r, err := measure(n)
		if err != nil {
			return r, err
		}
		sweep.Readings = append(sweep.Readings, r)
		slices.SortStableFunc(sweep.Readings, func(a, b Reading) int { return int(a.Iterations - b.Iterations) })
		return r, nil
	}

	r, err := take(max(1, start))
	for ; err == nil && r.Efficiency < half; r, err = take(2 * r.Iterations) { // 1
		if 2*r.Iterations > limit {
			return sweep, fmt.Errorf("%w: with %d iterations, %s per task, it is %.0f %%", ErrUnreached, r.Iterations, duration(r.Granularity), 100*r.Efficiency)
		}
	}
	doubled := len(sweep.Readings) > 1
	for missed := 0; err == nil && missed < 2 && !doubled && sweep.Readings[0].Iterations > 1; {
		// 2
		if r, err = take(sweep.Readings[0].Iterations / 2); r.Efficiency >= half {
			missed = 0
		} else if missed++; r.Efficiency < half/2 {
			missed = 2
		}
	}
	for err == nil { // 3
		i := crossing(sweep.Readings)
		if i == 0 {
			break
		}
		below, above := sweep.Readings[i-1].Iterations, sweep.Readings[i].Iterations
		middle := int64(math.Round(math.Sqrt(float64(below) * float64(above))))
		if float64(above) <= narrow*float64(below) || middle == below || middle == above {
			break
		}
		_, err = take(middle)
	}
	if err != nil {
		return sweep, err
	}
	sweep.METG, sweep.Bound = sweep.interpolate() // 4
	return sweep, nil
}

// crossing returns the index of the smallest reading that is efficient enough. There is one.
func crossing(readings []Reading) int {
	return slices.IndexFunc(readings, func(r Reading) bool { return r.Efficiency >= half })
}

func (s *Sweep) interpolate() (metg float64, bound bool) {
	i := crossing(s.Readings)
	if i == 0 {
		return s.Readings[0].Granularity, true
	}
	above, below := s.Readings[i], s.Readings[i-1]
	part := (half - below.Efficiency) / (above.Efficiency - below.Efficiency)
	low, high := math.Log(below.Granularity), math.Log(above.Granularity)
	return math.Exp(low + part*(high-low)), false
}

func duration(ns float64) time.Duration { return time.Duration(ns).Round(10 * time.Nanosecond) }

// Grains says which grain sizes a search may use, as times of the kernel alone. The zero value
// means the defaults.
type Grains struct {
	Start time.Duration // the first
	Limit time.Duration // the largest
}

// Defaults of Grains. At the first grain most systems are near their peak: a run of a thousand
// steps of sixteen points takes a sixteenth of a second on two cores.
const (
	DefaultStart = 8 * time.Microsecond
	DefaultLimit = 32 * time.Millisecond
)

func (g Grains) normalize() (Grains, error) {
	if g.Start == 0 {
		g.Start = DefaultStart
	}
	if g.Limit == 0 {
		g.Limit = max(DefaultLimit, g.Start)
	}
	if g.Start < 0 || g.Limit < g.Start {
		return g, fmt.Errorf("grains from %s up to %s: the first must be more than 0, and the largest at least as much", g.Start, g.Limit)
	}
	return g, nil
}

// Grains in which the peak is measured. They are so large that a call costs nothing in comparison,
// and together so large that the start of the threads does not either.
const (
	peakGrain = 2 * time.Microsecond
	peakTotal = 10 * time.Millisecond
)

// measurePeak measures the peak: the least nanoseconds per iteration, of all workers together. A
// disturbance makes a measurement larger, never smaller, so the least so far is the best estimate.
func (m *Machine) measurePeak(ctx context.Context, least time.Duration) (float64, error) {
	const few = 100 // iterations, for a rough cost of one
	ns, err := m.Peak(ctx, few, 0)
	if err != nil {
		return 0, err
	}
	grain := max(float64(peakGrain)/float64(m.workers), float64(peakTotal)/float64(m.tasks))
	n := max(few, int64(grain*few/max(ns, 1e-3)))
	ns, err = m.Peak(ctx, n, least)
	m.known.offer(ns / float64(n))
	return m.known.ns, err
}

// A peak is the least nanoseconds per iteration that are known; zero means none.
type peak struct{ ns float64 }

func (p *peak) offer(ns float64) {
	if p.ns == 0 || ns < p.ns {
		p.ns = ns
	}
}

// METG searches, given a peak. A run that does better raises the peak.
func (m *Machine) METG(ctx context.Context, peak *peak, grains Grains, least time.Duration) (Sweep, error) {
	iterations := func(grain time.Duration) int64 { return max(1, int64(float64(grain)/(peak.ns*float64(m.workers)))) }
	sweep, err := Search(func(n int64) (Reading, error) {
		if err := ctx.Err(); err != nil {
			return Reading{}, err
		}
		ns, err := m.Run(ctx, n, least)
		done := m.average(n)
		peak.offer(ns / done)
		return Reading{Iterations: n, Granularity: ns * float64(m.workers), Efficiency: peak.ns * done / ns}, err
	}, iterations(grains.Start), iterations(grains.Limit))
	sweep.Peak = peak.ns
	return sweep, err
}
