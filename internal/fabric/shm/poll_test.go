//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// What stirs: a frame, one who comes, one who dies, and a queue that waits.
func TestStirs(t *testing.T) {
	for name, row := range map[string]func(a, b *actor){
		"a frame":      func(a, b *actor) { require.NoError(t, b.Send(0, word(1))) },
		"one comes":    func(a, b *actor) { a.box.head.joins.Add(1) },
		"one has died": func(a, b *actor) { a.peers[1].unreachable() },
		"a queue":      func(a, b *actor) { a.fills(t, 1) },
	} {
		a, b, _ := beside(t)
		require.False(t, a.stirs(), name)
		require.False(t, a.ready(), name)
		row(a, b)
		require.True(t, a.stirs(), name)
		require.Equal(t, name != "a queue", a.ready(), name)
		a.looks(t)
		require.Equal(t, name == "a queue", a.stirs(), name)
		require.False(t, a.ready(), name)
	}
	// One who leaves writes what there is room for.
	a, b, _ := beside(t)
	n := a.fills(t, 1)
	b.looks(t)
	a.box.head.look.Store(0)
	require.True(t, a.enter())
	a.leave()
	require.Zero(t, a.pending.Load())
	b.looks(t)
	require.Equal(t, sends(0, 1, n), b.hears())
}

// A poll takes what is there; one that finds nothing gives way each so many tries, and leaves the
// look word alone.
func TestPoll(t *testing.T) {
	for _, turn := range []int{lookCrowded, 3} {
		t.Run(fmt.Sprint(turn), func(t *testing.T) {
			a, b, _ := beside(t)
			a.turn = turn
			c := still(t)
			here := 0
			for tries := range 130 * turn {
				rests := c.rests
				require.False(t, a.Poll(tries))
				if tries > 0 && tries%turn == 0 {
					rests++
					if tries/turn%64 == 0 {
						here++
					}
				}
				require.Equal(t, rests, c.rests, "try %d", tries)
				require.Len(t, c.here, here, "try %d", tries)
			}
			require.Equal(t, 2, here)
			require.Zero(t, a.box.head.look.Load())
			require.False(t, a.looking.Load())
			rests := c.rests
			require.NoError(t, b.Send(0, word(1)))
			a.each = func(int, fabric.Frame) {
				require.True(t, a.looking.Load())
				require.EqualValues(t, 2, a.box.head.look.Load()&^1, "a sender finds that somebody looks")
			}
			require.True(t, a.Poll(turn))
			require.Equal(t, rests, c.rests, "something has come")
			require.Equal(t, sends(1, 1, 1), a.hears())
			require.EqualValues(t, 0, a.box.head.look.Load()&^1)
			require.False(t, a.looking.Load())
			// A copy is made by whoever polls next.
			copied := false
			for _, add := range []bool{false, true} { // by this poll, or left by another
				if offers(a, b, map[bool]uint64{false: 1, true: 2}[add], func() {
					copied = true
					require.False(t, a.looking.Load())
				}); add {
					a.looks(t)
				}
				require.Equal(t, !add, a.Poll(1))
				require.True(t, copied)
				copied = false
			}
			// Where somebody else looks.
			require.NoError(t, b.Send(0, word(2)))
			a.box.head.look.Store(0)
			require.True(t, a.Enter())
			for _, row := range []struct {
				up     bool
				tries  int
				wanted bool
			}{{false, 0, false}, {false, 1, false}, {true, 0, false}, {true, 1, true}, {true, turn, true}} {
				a.up.Store(row.up)
				a.wanted.Store(false)
				rests := c.rests
				require.False(t, a.Poll(row.tries))
				require.Equal(t, row.wanted, a.wanted.Load(), "%+v", row)
				require.Equal(t, row.tries == turn, c.rests > rests)
			}
			a.up.Store(false)
			require.Empty(t, a.hears())
			a.Leave()
			require.Equal(t, sends(1, 2, 2), a.hears())
			require.NoError(t, b.Send(0, word(3)))
			a.closed.Store(true)
			require.False(t, a.Poll(1))
			require.False(t, a.Enter())
			a.Look(make(chan struct{}), false)
			require.Empty(t, a.hears(), "it is closed")
		})
	}
}

// The sleeper makes way for a goroutine that waits, which asks a bounded number of times; others do
// not.
func TestClaim(t *testing.T) {
	a, _, _ := beside(t)
	c := still(t)
	woken := make(chan struct{}, 1)
	require.True(t, a.claim(woken))
	require.False(t, a.claim(woken), "another goroutine looks")
	require.Zero(t, c.pauses)
	require.False(t, a.wanted.Load())
	a.up.Store(true)
	require.False(t, a.claim(woken))
	require.Equal(t, wantFor/100, c.pauses)
	require.True(t, a.wanted.Load())
	*c = clock{at: c.at, each: func(n int) {
		if n == 3 {
			a.leave() // as the sleeper does
		}
	}}
	require.True(t, a.claim(woken))
	require.Equal(t, 3, c.pauses)
	require.True(t, a.looking.Load())
	*c = clock{at: c.at}
	a.wanted.Store(false)
	woken <- struct{}{}
	require.False(t, a.claim(woken))
	require.Zero(t, c.pauses)
	require.True(t, a.wanted.Load())
	a.up.Store(false)
	a.leave()
	a.closed.Store(true)
	require.False(t, a.claim(woken))
	require.False(t, a.looking.Load())
}

// One who leaves takes what comes meanwhile a few times, and then leaves it to the sleeper, which
// it wakes.
func TestLeaves(t *testing.T) {
	a, b, _ := beside(t)
	a.box.head.look.Store(0)
	rings := a.rings(t)
	most, n := 1000, uint64(1)
	send := func() {
		f := word(n)
		n++
		require.True(t, b.peers[0].out.put(kindFrame, &f))
	}
	a.each = func(int, fabric.Frame) {
		if n <= uint64(most) {
			send()
		}
	}
	require.True(t, a.enter())
	send()
	a.leave()
	require.Equal(t, sends(1, 1, leaveAfter*batch), a.hears())
	require.False(t, a.looking.Load())
	require.EqualValues(t, 1, a.box.head.look.Load())
	require.Equal(t, rings+1, a.rings(t))
	a.wake()
	require.Equal(t, rings+1, a.rings(t), "it was woken")
	// It ends earlier if nothing comes any more, or if the sleeper is up, for whom it is then.
	a.box.head.look.Store(0)
	require.True(t, a.enter())
	most = 3 * batch
	a.leave()
	require.Equal(t, sends(1, leaveAfter*batch+1, leaveAfter*batch+1), a.hears())
	require.Zero(t, a.box.head.look.Load())
	require.Equal(t, rings+1, a.rings(t))
	a.each = nil
	a.box.head.look.Store(1)
	require.True(t, a.enter())
	send()
	a.leave()
	require.Empty(t, a.hears())
	require.EqualValues(t, 1, a.box.head.look.Load())
	require.False(t, a.looking.Load())
	a.box.head.look.Store(0)
	a.wake()
	require.EqualValues(t, 1, a.box.head.look.Load())
	require.Equal(t, rings+2, a.rings(t))
}
