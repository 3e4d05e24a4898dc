// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every task is either taken or counted, even with more origins than cells, and while another
// goroutine calls Skipped.
func TestHammerSampler(t *testing.T) {
	r, err := New(Options{Sample: 8})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	const writers, tasks = 4, 20_000
	var mu sync.Mutex
	taken := map[uint32]uint64{}
	var wg sync.WaitGroup
	for w := range writers {
		s := r.Sampler()
		wg.Go(func() {
			mine := map[uint32]uint64{}
			for i := range tasks {
				o := Origin{Body: uintptr(i*7%200+1) << 4, Label: []string{"a", "b"}[w%2]}
				if s.Take() {
					mine[r.Names().Spec(o)]++
				} else {
					s.Skip(o)
				}
				if i%500 == 0 {
					r.Skipped()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range mine {
				taken[k] += n
			}
		})
	}
	wg.Wait()
	total, chosen := uint64(0), uint64(0)
	for spec, n := range r.Skipped() {
		require.Equal(t, uint64(writers/2*tasks/200), n+taken[spec])
		total += n
	}
	for _, n := range taken {
		total, chosen = total+n, chosen+n
	}
	require.Equal(t, uint64(writers*tasks), total)
	require.InDelta(t, writers*tasks/8, chosen, writers*tasks/40, "one of eight, by chance")
}

func TestSampleOfAll(t *testing.T) {
	r, err := New(Options{})
	require.NoError(t, err)
	require.Nil(t, r.Sampler())
	require.NoError(t, r.Close())
	_, err = New(Options{Sample: -2})
	require.EqualError(t, err, "event: one task of -2 is to be recorded; legal are 0 and 1, which record all, up to 1048576, and -1, which adapts to the rate of tasks")
}

// The weights of the recorded tasks add up to about the number of tasks, however the rate changes.
// While tasks are slow, each is taken.
func TestSampleAdaptive(t *testing.T) {
	r, err := New(Options{Sample: Adaptive})
	require.NoError(t, err)
	require.True(t, r.Samples())
	s := r.Sampler()
	// paces that make every task count as quick, or as slow
	quick, slow := int64(1<<50), int64(1)
	s.pace = slow
	for range 10 * adaptTasks {
		require.True(t, s.Take())
		require.Zero(t, s.Stands())
	}
	r.eager.Store(true)
	s.pace = quick
	for range 4 * adaptTasks {
		require.True(t, s.Take())
	}
	r.Thin()
	const tasks = 2_000_000
	sum, taken, most := 0, 0, uint8(0)
	for i := range tasks {
		switch i % 50_000 {
		case 0:
			s.pace = quick
		case 30_000:
			s.pace = slow
		}
		if s.Take() {
			taken++
			sum += 1 << s.Stands()
			most = max(most, s.Stands())
		} else {
			s.Skip(Origin{Body: 16})
		}
	}
	require.Equal(t, uint8(adaptMost), most)
	require.InDelta(t, tasks, sum, tasks/50)
	require.Less(t, taken, tasks/2)
	n := 0
	for _, k := range r.Skipped() {
		n += int(k)
	}
	require.Equal(t, tasks, taken+n)
	require.NoError(t, r.Close())
}

// The first task is one of the first N, and then the gaps are from 1 to 2N-1: all of these, and no
// others.
func TestSampleGaps(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	for _, n := range []int{2, 3, 8} {
		rec.opt.Sample = n
		first, gaps := map[int]int{}, map[int]int{}
		gap := func(s *Sampler) (k int) {
			for k = 1; !s.Take(); k++ {
			}
			require.Zero(t, s.Stands())
			return k
		}
		for range 300 {
			s := rec.Sampler()
			require.Equal(t, s.left, s.gap)
			first[gap(s)]++
			for range 10 {
				gaps[gap(s)]++
			}
		}
		for want, got := range map[int]map[int]int{n: first, 2*n - 1: gaps} {
			require.Len(t, got, want)
			for k := range want {
				require.NotZero(t, got[k+1], "gap %d, of one in %d", k+1, n)
			}
		}
	}
}

// An adaptive sampler changes its rate after adaptTasks tasks, recorded or not, and to the smallest
// sufficient one. The weight of a task is the rate by which it was chosen.
func TestSampleChanges(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	rec.opt.Sample = Adaptive
	s := rec.Sampler()
	require.InEpsilon(t, adaptPace, rec.clock.Span(s.pace), 0.01)
	require.LessOrEqual(t, s.from, Ticks())
	const each = 1 << 40 // ticks between two tasks, as the sampler measures them
	take := func(n int) {
		for range n {
			require.True(t, s.Take())
			require.Zero(t, s.Stands())
		}
	}
	for most, pace := range map[uint64]int64{1: 1, 2: each + each/2, 4: each*2 + each/2, 8: each*4 + each/2, 1 << adaptMost: 1 << 62} {
		s.every, s.left, s.gap, s.seen, s.from, s.pace = 1, 1, 1, 0, Ticks()-adaptTasks*each, pace
		take(adaptTasks - 1)
		require.EqualValues(t, 1, s.every)
		require.EqualValues(t, adaptTasks-1, s.seen)
		take(1)
		require.Equal(t, most, s.every)
		require.Zero(t, s.seen)
		require.InDelta(t, Ticks(), s.from, each)
		gap := s.gap
		for range gap - 1 {
			require.False(t, s.Take())
		}
		require.True(t, s.Take())
		require.Equal(t, most, uint64(1)<<s.Stands())
		require.Equal(t, gap, s.seen)
		require.LessOrEqual(t, s.gap, 2*most-1)
	}
}

// Skipped tasks are counted by origin: also tasks of an unknown origin, and of origins that take
// turns in one cell.
func TestSkipped(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	rec.opt.Sample = 2
	one, other := rec.Sampler(), rec.Sampler()
	a, b := Origin{Body: 1 << 4}, Origin{Body: (1 + counted) << 4}
	for _, o := range []Origin{{}, a, a, b, a, a, b, {}} {
		one.Skip(o)
	}
	other.Skip(b)
	n := rec.Names()
	require.Equal(t, map[uint32]uint64{n.Spec(Origin{}): 2, n.Spec(a): 4, n.Spec(b): 3}, rec.Skipped())
	require.Equal(t, 3, n.Specs())
	one.Skip(a)
	require.Equal(t, uint64(5), rec.Skipped()[n.Spec(a)])
}
