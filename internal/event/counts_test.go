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
	_, err = New(Options{Sample: -1})
	require.EqualError(t, err, "event: one task of -1 is to be recorded; legal are 0 and 1, for all, to 1048576")
}
