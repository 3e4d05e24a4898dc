// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package soak is for tests that ask whether what a program keeps is a function of what is live:
// while it runs, they take samples of its live heap, its goroutines and its open descriptors, and
// compare the second half of the run with the first.
//
//	stop := soak.Every(20 * time.Millisecond)
//	… a program whose live state is constant …
//	require.Empty(t, stop().Growth())
//
// What depends on how long a test runs is asked for by the flag -soak (see [Long]); without it the
// same tests run for a second or less.
package soak

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
)

var long = flag.Bool("soak", false, "run the tests of growth for minutes instead of moments")

// Long returns how long a test is to run: all of it with the flag -soak, else a part.
func Long(part, all int) int {
	if *long {
		return all
	}
	return part
}

// Sample is what a process has at one moment.
type Sample struct {
	Heap       uint64 // bytes that the collector has found reachable
	Goroutines int
	Files      int // descriptors; zero where nobody says
}

// Take collects the garbage and takes a sample.
func Take() Sample {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	s := Sample{Heap: live[0].Value.Uint64(), Goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.Files = len(fds)
	}
	return s
}

// Series is samples of one run, in their order.
type Series []Sample

// Every takes a sample now and then, on a goroutine of its own, until stop is called. It counts
// itself in no sample.
func Every(d time.Duration) (stop func() Series) {
	return each(func() <-chan time.Time { return time.After(d) })
}

// each is Every for a test: after each sample it waits for the channel that next returns.
func each(next func() <-chan time.Time) (stop func() Series) {
	quit, over := make(chan struct{}), make(chan struct{})
	var list Series
	go func() {
		defer close(over)
		for {
			s := Take()
			s.Goroutines--
			list = append(list, s)
			select {
			case <-quit:
				return
			case <-next():
			}
		}
	}()
	return func() Series {
		close(quit)
		<-over
		return list
	}
}

// What a run may have more of in its last quarter than in its second. Live state changes from
// moment to moment, by messages under way and tasks in the window; a leak of a few hundred bytes
// for each step of a long run is far above that.
const (
	moreHeap       = 2 << 20
	moreGoroutines = 16
	moreFiles      = 8
)

// Growth says what has grown from the second quarter of the samples to the last; "" if nothing has,
// or if the run was too short to tell.
func (l Series) Growth() string {
	n := len(l)
	if n < 8 {
		return ""
	}
	return strings.Join(grown(l[n/4:n/2], l[n-n/4:], 4, moreHeap, moreGoroutines, moreFiles), "; ")
}

// grown says of what late has more than early: more than one part in share of what was there and
// the number given, of each.
func grown(early, late Series, share, heap, goroutines, files int) (list []string) {
	look := func(what string, more int, of func(Sample) int) {
		if a, b := middle(early, of), middle(late, of); b > a+a/share+more {
			list = append(list, fmt.Sprintf("%s: %d, then %d", what, a, b))
		}
	}
	look("bytes of live heap", heap, func(s Sample) int { return int(s.Heap) })
	look("goroutines", goroutines, func(s Sample) int { return s.Goroutines })
	look("descriptors", files, func(s Sample) int { return s.Files })
	return list
}

// middle returns the median.
func middle(l []Sample, of func(Sample) int) int {
	v := make([]int, len(l))
	for i, s := range l {
		v[i] = of(s)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// What the last rounds may have more of than the first. Live state is the same behind each round,
// so what a round of a thousand operations leaves would be far above that.
const (
	roundHeap       = 320 << 10
	roundGoroutines = 4
	roundFiles      = 4
	// roundTime is how many times as long a late round may take as an early one. A cost that grows
	// with what was done before makes it more than the number of rounds by half.
	roundTime = 3
)

// Rounds calls round n times, at least 8, and takes a sample behind each. All rounds must do the
// same and leave the same. kept says what has grown from the second quarter of them to the last:
// live heap, goroutines, descriptors. longer says whether the processor time of a round has, from
// the first quarter; it is of no use where goroutines look while they wait, since that takes what
// processors are free. Both are "" if nothing has grown.
//
//	kept, longer, err := soak.Rounds(16, func() error { … a thousand messages … })
func Rounds(n int, round func() error) (kept, longer string, err error) {
	var samples Series
	var times []time.Duration
	for i := range 2 * n {
		if i >= n {
			// other programs make rounds longer as well; a cost that grows makes each of them
			// longer
			if early, late := slices.Min(times[:n/4]), slices.Min(times[n-n/4:]); late <= roundTime*early+time.Millisecond {
				break
			}
		}
		before := processorTime()
		if err := round(); err != nil {
			return "", "", err
		}
		times = append(times, processorTime()-before)
		Take() // what a sync.Pool has kept goes with the second collection
		samples = append(samples, Take())
	}
	early, late := samples[n/4:n/2], samples[len(samples)-n/4:] // pools are full by then
	for _, g := range grown(early, late, math.MaxInt, roundHeap, roundGoroutines, roundFiles) {
		kept += g + "; "
	}
	if a, b := slices.Min(times[:n/4]), slices.Min(times[n-n/4:]); b > roundTime*a+time.Millisecond {
		longer = fmt.Sprintf("processor time of a round: %v, then %v", a, b)
	}
	return kept, longer, nil
}
