//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Operations of one goroutine are taken in their order, and every operation is taken once.
func TestQueueHammer(t *testing.T) {
	const producers, each = 4, 2000
	var q queue
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				q.push(&op{peer: p, key: uint64(i)})
			}
		})
	}
	next := make([]uint64, producers)
	for n := 0; n < producers*each; {
		for o := q.take(); o != nil; o = o.next {
			require.Equal(t, next[o.peer], o.key)
			next[o.peer]++
			n++
		}
	}
	wg.Wait()
	require.Nil(t, q.take())
}

func TestTags(t *testing.T) {
	x := tags{span: 4}
	take := func(peer int, key uint64) (int, bool) {
		tag, other, ok := x.choose(peer, key)
		require.True(t, ok)
		return tag, other
	}
	tag, other := take(0, 6)
	require.Equal(t, 2, tag)
	require.False(t, other)
	_, other = take(1, 6) // another peer's tags are separate
	require.False(t, other)
	seen := map[int]bool{2: true}
	for _, key := range []uint64{2, 10, 14} { // the tag of all these keys is 2
		tag, other := take(0, key)
		require.True(t, other)
		require.False(t, seen[tag])
		seen[tag] = true
	}
	_, _, ok := x.choose(0, 3)
	require.False(t, ok, "all tags are in use")
	x.release(0, 1)
	tag, other = take(0, 3)
	require.Equal(t, 1, tag)
	require.True(t, other)
	require.Len(t, x.busy, 5)
}
