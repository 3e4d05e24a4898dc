// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

func isDetached(s *socket) bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.detached
}

// holdDetached has a rank send to rank 1, which polls rapidly until the rank's socket is detached.
// It returns the socket. The caller then has the turn of rank 1. sent counts the frames that the
// rank has sent.
func holdDetached(t *testing.T, eps []*Endpoint, cs []*collect, from int, sent *int64) *socket {
	t.Helper()
	pl := eps[1].poller
	eventually(t, engine(eps[1]).Enter)
	for pl.deferrals < detachAfter {
		before := cs[1].n.Load()
		require.NoError(t, eps[from].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(*sent)}}))
		*sent++
		eventually(t, func() bool { pl.Poll(false); return cs[1].n.Load() == before+1 })
		require.Equal(t, fabric.ArmDeferred, pl.Arm(true, fabric.LeavingForSoon))
	}
	s := eps[1].peers.At(from).polled.Load()
	require.True(t, isDetached(s))
	return s
}

// A direct socket is detached, and is in inner again after the last poll: the guard arms, and the
// next arrival wakes the doorbell goroutine.
func TestDetached(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var sent int64
	s := holdDetached(t, eps, cs, 0, &sent)
	engine(eps[1]).Leave() // and never polls again
	eventually(t, func() bool { return !isDetached(s) })
	for range 3 {
		before := cs[1].n.Load()
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(sent)}}))
		sent++
		eventually(t, func() bool { return cs[1].n.Load() == before+1 })
	}
	require.Zero(t, cs[1].bad.Load())
}

// A detached socket that takes no more bytes is put back into inner, which reports when it does.
func TestDetachedAndFull(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var sent int64
	s := holdDetached(t, eps, cs, 0, &sent)
	eventually(t, engine(eps[0]).Enter) // so that no goroutine reads there
	data := make([]byte, 64<<20)
	done := make(chan error, 2)
	eps[0].Expect(1, 5, make([]byte, len(data)), func(err error) { done <- err })
	eps[1].Push(0, 5, data, func(err error) { done <- err })
	require.False(t, isDetached(s))
	require.EqualValues(t, 1, eps[1].poller.full.Load())
	s.setDetached(true)
	require.False(t, isDetached(s), "nothing would report that it takes more")
	engine(eps[1]).Leave()
	engine(eps[0]).Leave()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// Of more than two sockets, the one from which bytes came last is direct. A socket that is not
// direct any more is in inner.
func TestDirectSocketsChange(t *testing.T) {
	eps := openAll(t, 4, nil)
	cs := bindAll(eps)
	var sent [4]int64
	for _, r := range []int{0, 2, 3} { // until all have connections
		require.NoError(t, eps[r].Send(1, fabric.Frame{}))
		sent[r]++
	}
	eventually(t, func() bool { return cs[1].n.Load() == 3 })
	pl := eps[1].poller
	for k, r := range []int{0, 2, 3, 2, 0} {
		s := holdDetached(t, eps, cs, r, &sent[r])
		require.Equal(t, [2]*socket{s}, pl.direct, "step %d", k)
		for _, other := range []int{0, 2, 3} {
			require.Equal(t, other == r, isDetached(eps[1].peers.At(other).polled.Load()), "step %d, rank %d", k, other)
		}
		if next := (r + 1) % 4; next > 1 { // another rank sends before the caller leaves
			before := cs[1].n.Load()
			require.NoError(t, eps[next].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(sent[next])}}))
			sent[next]++
			eventually(t, func() bool { pl.Poll(false); return cs[1].n.Load() == before+1 })
			require.Equal(t, [2]*socket{eps[1].peers.At(next).sock}, pl.direct, "step %d", k)
			require.False(t, isDetached(s), "step %d: it is not direct any more", k)
		}
		engine(eps[1]).Leave()
		eventually(t, func() bool { return !isDetached(s) })
	}
	for range 20 { // and all are read
		before := cs[1].n.Load()
		for _, r := range []int{0, 2, 3} {
			require.NoError(t, eps[r].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(sent[r])}}))
			sent[r]++
		}
		eventually(t, func() bool { engine(eps[1]).Poll(); return cs[1].n.Load() == before+3 })
	}
	require.Zero(t, cs[1].bad.Load())
}

// The end of a detached connection is noticed.
func TestDetachedAndLost(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var sent int64
	s := holdDetached(t, eps, cs, 0, &sent)
	eps[0].peers.At(1).hangUp(both)
	eventually(t, func() bool { eps[1].poller.Poll(false); return len(cs[1].lost) == 1 })
	require.True(t, s.over)
	require.Equal(t, [2]*socket{}, eps[1].poller.direct)
	require.Zero(t, eps[1].poller.open.Load())
	engine(eps[1]).Leave()
}
