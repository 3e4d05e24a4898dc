// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

func isApart(s *socket) bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.apart
}

// holdApart has a rank send to rank 1, which takes that with rapid looks until it has the socket
// out of its set. It returns the socket, and the caller is the one who polls. sent counts what the
// rank has sent.
func holdApart(t *testing.T, eps []*Endpoint, cs []*collect, from int, sent *int64) *socket {
	t.Helper()
	y := eps[1].eyes
	eventually(t, engine(eps[1]).Enter)
	for y.streak < apartAfter {
		before := cs[1].n.Load()
		require.NoError(t, eps[from].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(*sent)}}))
		*sent++
		eventually(t, func() bool { y.Poll(false); return cs[1].n.Load() == before+1 })
		require.Equal(t, fabric.ArmDeferred, y.Arm(true, fabric.LeavingForSoon))
	}
	s := eps[1].peers.At(from).looked.Load()
	require.True(t, isApart(s))
	return s
}

// What is read directly is taken out of the set, and is back there when nobody looks any more: the
// guard sees to that, and then the sleeper is woken.
func TestApart(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var sent int64
	s := holdApart(t, eps, cs, 0, &sent)
	engine(eps[1]).Leave() // and never looks again
	eventually(t, func() bool { return !isApart(s) })
	for range 3 {
		before := cs[1].n.Load()
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(sent)}}))
		sent++
		eventually(t, func() bool { return cs[1].n.Load() == before+1 })
	}
	require.Zero(t, cs[1].bad.Load())
}

// A socket that is apart and takes no more is back in the set, which says when it does.
func TestApartAndFull(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var sent int64
	s := holdApart(t, eps, cs, 0, &sent)
	eventually(t, engine(eps[0]).Enter) // so that nobody reads there
	data := make([]byte, 64<<20)
	done := make(chan error, 2)
	eps[0].Expect(1, 5, make([]byte, len(data)), func(err error) { done <- err })
	eps[1].Push(0, 5, data, func(err error) { done <- err })
	require.False(t, isApart(s))
	require.EqualValues(t, 1, eps[1].eyes.full.Load())
	s.setApart(true)
	require.False(t, isApart(s), "it would not be heard of when it takes more")
	engine(eps[1]).Leave()
	engine(eps[0]).Leave()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// Of more than two, the one that has spoken last is read directly; who is not any more is in the
// set.
func TestTalkersChange(t *testing.T) {
	eps := openAll(t, 4, nil)
	cs := bindAll(eps)
	var sent [4]int64
	for _, r := range []int{0, 2, 3} { // until all have connections
		require.NoError(t, eps[r].Send(1, fabric.Frame{}))
		sent[r]++
	}
	eventually(t, func() bool { return cs[1].n.Load() == 3 })
	y := eps[1].eyes
	for k, r := range []int{0, 2, 3, 2, 0} {
		s := holdApart(t, eps, cs, r, &sent[r])
		require.Equal(t, [2]*socket{s}, y.talkers, "turn %d", k)
		for _, other := range []int{0, 2, 3} {
			require.Equal(t, other == r, isApart(eps[1].peers.At(other).looked.Load()), "turn %d, rank %d", k, other)
		}
		if next := (r + 1) % 4; next > 1 { // another one speaks before the caller leaves
			before := cs[1].n.Load()
			require.NoError(t, eps[next].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(sent[next])}}))
			sent[next]++
			eventually(t, func() bool { y.Poll(false); return cs[1].n.Load() == before+1 })
			require.Equal(t, [2]*socket{eps[1].peers.At(next).sock}, y.talkers, "turn %d", k)
			require.False(t, isApart(s), "turn %d: nobody reads it directly any more", k)
		}
		engine(eps[1]).Leave()
		eventually(t, func() bool { return !isApart(s) })
	}
	for range 20 { // and all are heard
		before := cs[1].n.Load()
		for _, r := range []int{0, 2, 3} {
			require.NoError(t, eps[r].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(sent[r])}}))
			sent[r]++
		}
		eventually(t, func() bool { engine(eps[1]).Poll(); return cs[1].n.Load() == before+3 })
	}
	require.Zero(t, cs[1].bad.Load())
}

// The end of a connection that is apart is noticed.
func TestApartAndLost(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var sent int64
	s := holdApart(t, eps, cs, 0, &sent)
	eps[0].peers.At(1).hang(both)
	eventually(t, func() bool { eps[1].eyes.Poll(false); return len(cs[1].lost) == 1 })
	require.True(t, s.over)
	require.Equal(t, [2]*socket{}, eps[1].eyes.talkers)
	require.Zero(t, eps[1].eyes.open.Load())
	engine(eps[1]).Leave()
}
