// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package soak is for tests that look for leaks: whether a program whose live state is constant
// keeps ever more memory, goroutines or descriptors. They take samples of its live heap, its
// goroutines and its open descriptors while it runs, and compare late samples with early ones.
//
//	stop := soak.Every(20 * time.Millisecond)
//	… a program whose live state is constant …
//	require.Empty(t, stop().Growth())
//
// The flag -soak makes such tests run for minutes (see [Long]). Without it the same tests run for a
// second or less.
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

// Long returns how long a test should run: all with the flag -soak, else part.
func Long(part, all int) int {
	if *long {
		return all
	}
	return part
}

// Sample is what a process holds at one moment.
type Sample struct {
	Heap       uint64 // bytes that the garbage collector has found reachable
	Goroutines int
	Files      int // open descriptors; 0 where the system does not list them
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

// Series is the samples of one run, in their order.
type Series []Sample

// Every starts a goroutine that takes a sample every d until stop is called. No sample counts that
// goroutine.
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

// The growth that is allowed from the second quarter of a run to its last. Live state changes from
// moment to moment, by messages under way and tasks in flight. A leak of a few hundred bytes for
// each step of a long run is far above that.
const (
	moreHeap       = 2 << 20
	moreGoroutines = 16
	moreFiles      = 8
)

// Growth describes what has grown from the second quarter of the samples to the last. It returns ""
// if nothing has grown, or if there are fewer than 8 samples.
func (l Series) Growth() string {
	n := len(l)
	if n < 8 {
		return ""
	}
	return strings.Join(grown(l[n/4:n/2], l[n-n/4:], 4, moreHeap, moreGoroutines, moreFiles), "; ")
}

// grown describes what late has more of than early. A median may grow by one part in share and by
// the number given for its kind (heap, goroutines or files).
func grown(early, late Series, share, heap, goroutines, files int) (list []string) {
	compare := func(what string, more int, of func(Sample) int) {
		if a, b := middle(early, of), middle(late, of); b > a+a/share+more {
			list = append(list, fmt.Sprintf("%s: %d, then %d", what, a, b))
		}
	}
	compare("bytes of live heap", heap, func(s Sample) int { return int(s.Heap) })
	compare("goroutines", goroutines, func(s Sample) int { return s.Goroutines })
	compare("descriptors", files, func(s Sample) int { return s.Files })
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

// The growth that is allowed from the early rounds to the last. Live state is the same after each
// round, so a round of a thousand operations that leaks exceeds it by far.
const (
	roundHeap       = 320 << 10
	roundFill       = 1 << 20 // of heap in all, by caches that fill in the first rounds
	roundGoroutines = 4
	roundFiles      = 4
	// roundTime is how many times as long a late round may take as an early one. A cost that grows
	// with the work done before makes late rounds longer by a factor of more than half the number
	// of rounds.
	roundTime = 3
)

// Rounds calls round n times, at least 8, and takes a sample after each. All rounds must do the
// same and leave the same. kept describes what has grown from the second quarter of the rounds to
// the last: live heap, goroutines, descriptors. longer says whether the processor time of a round
// has grown from the first quarter to the last. Where goroutines poll while they wait, longer is of
// no use, since polling takes all processors that are free. Both are "" if nothing has grown.
//
// While something seems to have grown, Rounds goes on, up to 4n rounds. A cache that fills by
// chance is full at last, and other programs make some rounds longer, not all. A leak, and a cost
// that grows, show the more, the more rounds there are. A cache that takes much memory until it is
// full is reported like a leak.
//
//	kept, longer, err := soak.Rounds(16, func() error { … a thousand messages … })
func Rounds(n int, round func() error) (kept, longer string, err error) {
	var samples Series
	var times []time.Duration
	for i := 1; i <= 4*n; i++ {
		before := processorTime()
		if err := round(); err != nil {
			return "", "", err
		}
		times = append(times, processorTime()-before)
		Take() // a sync.Pool drops its objects at the second collection only
		samples = append(samples, Take())
		if i < n {
			continue
		}
		kept = ""
		for _, g := range grown(samples[i/4:i/2], samples[i-i/4:], math.MaxInt, roundHeap, roundGoroutines, roundFiles) {
			kept += g + "; "
		}
		if kept == "" { // also the growth before the rounds that are compared
			for _, g := range grown(samples[n/4:n/2], samples[i-i/4:], math.MaxInt, roundFill, roundGoroutines, roundFiles) {
				kept += g + "; "
			}
		}
		longer = ""
		if a, b := slices.Min(times[:i/4]), slices.Min(times[i-i/4:]); b > roundTime*a+time.Millisecond {
			longer = fmt.Sprintf("processor time of a round: %v, then %v", a, b)
		}
		if kept+longer == "" {
			break
		}
	}
	return kept, longer, nil
}
