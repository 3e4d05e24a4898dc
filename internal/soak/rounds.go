// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"slices"
	"time"
)

// What the last rounds may have more of than the first. Live state is the same behind each round, so what a
// round of a thousand operations leaves would be far above that.
const (
	roundHeap       = 320 << 10
	roundGoroutines = 4
	roundFiles      = 4
	// roundTime is how many times as long a late round may take as an early one. A cost that grows with what was done
	// before makes it more than the number of rounds by half.
	roundTime = 3
)

// Rounds calls round n times, at least 8, and takes a sample behind each. All rounds must do the same and leave the same.
// kept says what has grown from the second quarter of them to the last: live heap, goroutines, descriptors. longer
// says whether the processor time of a round has, from the first quarter; it is of no use where goroutines look while
// they wait, since that takes what processors are free. Both are "" if nothing has grown.
//
//	kept, longer, err := soak.Rounds(16, func() error { … a thousand messages … })
func Rounds(n int, round func() error) (kept, longer string, err error) {
	var samples Series
	var times []time.Duration
	once := func() error {
		before := processorTime()
		if err := round(); err != nil {
			return err
		}
		times = append(times, processorTime()-before)
		Take() // what a sync.Pool has kept goes with the second collection
		samples = append(samples, Take())
		return nil
	}
	for range n {
		if err := once(); err != nil {
			return "", "", err
		}
	}
	// Other programs make rounds longer as well; a cost that grows makes each of them longer.
	for range n {
		if early, late := slices.Min(times[:n/4]), slices.Min(times[n-n/4:]); late <= roundTime*early+time.Millisecond {
			break
		}
		if err := once(); err != nil {
			return "", "", err
		}
	}
	early, late := samples[n/4:n/2], samples[len(samples)-n/4:] // pools are full by then
	look := func(what string, more int, of func(Sample) int) {
		if a, b := middle(early, of), middle(late, of); b > a+more {
			kept += fmt.Sprintf("%s: %d, then %d; ", what, a, b)
		}
	}
	look("bytes of live heap", roundHeap, func(s Sample) int { return int(s.Heap) })
	look("goroutines", roundGoroutines, func(s Sample) int { return s.Goroutines })
	look("descriptors", roundFiles, func(s Sample) int { return s.Files })
	if a, b := slices.Min(times[:n/4]), slices.Min(times[n-n/4:]); b > roundTime*a+time.Millisecond {
		longer = fmt.Sprintf("processor time of a round: %v, then %v", a, b)
	}
	return kept, longer, nil
}
