// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every task is either taken or counted, also when there are more origins than cells, and while somebody asks.
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
	require.EqualError(t, err, "event: one task of -2 is to be recorded; legal are 0 and 1, for all, to 1048576, and -1 for as many as cost little")
}

// What tasks stand for adds up to about how many there are, however the sampler changes; and while they come slowly, each is taken.
func TestSampleAdaptive(t *testing.T) {
	r, err := New(Options{Sample: Adaptive})
	require.NoError(t, err)
	require.True(t, r.Samples())
	s := r.Sampler()
	quick, slow := int64(1<<50), int64(1) // ticks a task that this takes for quick, whatever it is, or for slow
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
