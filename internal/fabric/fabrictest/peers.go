// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabrictest

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// RunGrowing checks that ranks can join a running job and leave it. open returns the connected
// endpoints of size ranks, and a function that makes the endpoint of a further rank, below room,
// after the others have grown.
func RunGrowing(t *testing.T, open func(t *testing.T, size, room int) (eps []fabric.Endpoint, join func(rank int) fabric.Endpoint)) {
	const size, room = 2, 5
	eps, join := open(t, size, room)
	sinks := bindAll(t, eps)
	seen := make([]int, room) // number of frames that have been checked, by rank

	// The first two exchange transfers all the time.
	over, talk := make(chan struct{}), sync.WaitGroup{}
	quiet := sync.OnceFunc(func() { close(over); talk.Wait() })
	defer quiet()
	a, b, dst := eps[0], eps[1], make([]byte, 1000)
	talk.Go(func() {
		for key := uint64(1 << 40); ; key++ {
			select {
			case <-over:
				return
			default:
			}
			ended := make(chan error, 1)
			b.Expect(0, key, dst, func(err error) { ended <- err })
			a.Push(1, key, make([]byte, len(dst)), func(error) {})
			if err := <-ended; err != nil {
				t.Errorf("a transfer between ranks that stay: %v", err)
				return
			}
		}
	})

	key := uint64(0)
	exchange := func(from, to int) {
		key++
		ended := make(chan error, 2)
		into, data := make([]byte, 3000), fill(make([]byte, 3000), key)
		eps[to].Expect(from, key, into, func(err error) { ended <- err })
		require.NoError(t, eps[from].Send(to, fabric.Frame{Head: headOf(key)}))
		eps[from].Push(to, key, data, func(err error) { ended <- err })
		got := sinks[to].wait(1)[seen[to]]
		seen[to]++
		require.Equal(t, []any{from, int32(to), headOf(key)}, []any{got.src, got.target, got.head})
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		require.Equal(t, data, into)
	}
	for rank := size; rank < room; rank++ {
		for _, e := range eps[:size] {
			require.ErrorIs(t, e.Send(rank, fabric.Frame{}), fabric.ErrRank)
		}
		for _, e := range eps[:size] {
			require.ErrorIs(t, e.Grow(rank-1), fabric.ErrRank, "ranks are only added")
			require.NoError(t, e.Grow(rank+1))
			require.NoError(t, e.Grow(rank+1), "the size already")
			require.Equal(t, rank+1, e.Size())
		}
		e := join(rank)
		require.Equal(t, []int{rank, rank + 1}, []int{e.Rank(), e.Size()})
		eps, sinks = append(eps, e), append(sinks, bindAll(t, []fabric.Endpoint{e})...)
		for peer := range size {
			exchange(rank, peer)
			exchange(peer, rank)
		}
		exchange(rank, rank)
		require.NoError(t, e.Close())
		for _, e := range eps[:size] {
			e.Drop(rank, errors.New("it has left"))
			require.Error(t, e.Send(rank, fabric.Frame{}))
		}
		exchange(0, 1)
		exchange(1, 0)
	}
	quiet()
	require.NoError(t, eps[0].Close())
	require.ErrorIs(t, eps[0].Grow(room), fabric.ErrClosed)
}

// relay sends frames via another rank. They arrive with the rank of their origin.
func relay(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	passed := make(chan error, 8)
	sinks[1].extra = func(_ int, f fabric.Frame) {
		if f.Target != 1 {
			passed <- eps[1].Relay(int(f.Target), f)
		}
	}
	data := fill(make([]byte, 1000), 1)
	for n := range uint64(4) {
		require.NoError(t, eps[0].Relay(1, fabric.Frame{Origin: 0, Target: 2, Head: headOf(n), Data: data}))
		require.NoError(t, <-passed)
		require.Equal(t, got{0, 2, headOf(n), data}, sinks[2].wait(1)[n])
		require.NoError(t, eps[2].Relay(1, fabric.Frame{Origin: 2, Target: 0, Head: headOf(n)}))
		require.NoError(t, <-passed)
		back := sinks[0].wait(1)[n]
		require.Equal(t, []any{2, int32(0), headOf(n)}, []any{back.src, back.target, back.head})
	}
}
