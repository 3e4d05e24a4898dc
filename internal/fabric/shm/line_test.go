//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkLine measures half the time to hand a cache line to another processor and get one back:
// the lower bound for a message. The two threads are bound as the launcher binds two ranks, and do
// nothing else. As in a ring, each side writes its own line.
func BenchmarkLine(b *testing.B) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		b.Skip("it needs two processors")
	}
	var at []int
	for c := 0; len(at) < 2; c++ {
		if all.IsSet(c) {
			at = append(at, c)
		}
	}
	var lines [2]struct {
		n atomic.Int64
		_ [2*lineSize - 8]byte
	}
	bind := func(c int) {
		runtime.LockOSThread() // and not unlocked: the thread ends with its goroutine
		var one unix.CPUSet
		one.Set(c)
		_ = unix.SchedSetaffinity(0, &one)
	}
	rounds := int64(b.N)
	over := make(chan struct{}, 2)
	go func() {
		bind(at[1])
		for n := int64(1); n <= rounds; n++ {
			for lines[0].n.Load() != n {
			}
			lines[1].n.Store(n)
		}
		over <- struct{}{}
	}()
	go func() {
		bind(at[0])
		b.ResetTimer()
		for n := int64(1); n <= rounds; n++ {
			lines[0].n.Store(n)
			for lines[1].n.Load() != n {
			}
		}
		b.StopTimer()
		over <- struct{}{}
	}()
	<-over
	<-over
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
}
