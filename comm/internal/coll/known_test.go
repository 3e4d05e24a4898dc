// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Questions about communicators that are not made yet are kept, up to a bound, the newest ones.
// Dropped communicators are forgotten, except for the recent ones; all others are found.
func TestKnown(t *testing.T) {
	type comm struct {
		ctx uint64
		_   *int // objects without pointers share their memory, and are kept together
	}
	var s Known[comm]
	c := new(comm)
	require.Empty(t, s.Add(0, c))
	require.Same(t, c, s.Find(0, nil))
	require.Nil(t, s.Find(4, nil))
	require.Nil(t, s.Find(4, &Question{Certain: true}))
	require.Empty(t, s.early)
	for i := range uint64(maxEarly + 3) {
		require.Nil(t, s.Find(100+2*i, &Question{From: 1, Count: i}))
	}
	require.Len(t, s.early, maxEarly)
	require.Equal(t, uint64(3), s.early[0].Count, "the oldest are gone")
	d := &comm{ctx: 100 + 2*5}
	require.Nil(t, s.Find(d.ctx, &Question{From: 2, Count: 9}))
	require.Equal(t, []Question{{From: 1, Count: 5}, {From: 2, Count: 9}}, s.Add(d.ctx, d))
	require.Len(t, s.early, maxEarly-2)
	require.Same(t, d, s.Find(d.ctx, nil))
	require.Equal(t, []*comm{c, d}, s.Living())
	for i := range uint64(RecentComms + 60) {
		s.Add(1000+2*i, &comm{ctx: 1000 + 2*i})
	}
	runtime.GC()
	for _, kept := range s.recent {
		require.GreaterOrEqual(t, kept.ctx, uint64(1000+2*60))
		require.Same(t, kept, s.Find(kept.ctx, nil))
	}
	require.Len(t, s.Living(), 2+RecentComms)
	require.Same(t, d, s.Find(d.ctx, nil), "it is reachable")
	before := len(s.all)
	for i := range uint64(before) {
		s.Add(5000+2*i, &comm{})
		runtime.GC()
	}
	require.Less(t, len(s.all), 2*before, "dropped ones are swept")
	runtime.KeepAlive(d)
}

// Answers are counted by rank. A lost rank gives none any more. The wait ends once, with the last
// answer.
func TestAnswers(t *testing.T) {
	over := 0
	a := NewAnswers(map[int]int{1: 2, 3: 1, 4: 5}, func(err error) {
		require.NoError(t, err)
		over++
	})
	a.Take(1)
	a.Take(2) // rank 2 was not asked
	a.Lose(4)
	a.Lose(4)
	require.Equal(t, map[int]int{1: 1, 3: 1}, a.of)
	a.Take(3)
	require.Zero(t, over)
	a.Take(1)
	require.Equal(t, 1, over)
	a.Take(1)
	a.Lose(3)
	require.Equal(t, 1, over)
}
