//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// twoRanks returns two ranks that know each other; transfers are of one copy.
func twoRanks(t *testing.T) (a, b *actor) {
	s := onStage(t, 2, func(c *Config) { c.SingleCopy = 1 })
	meet(t, s)
	for _, a := range s {
		a.box.head.look.Store(0)
	}
	return s[0], s[1]
}

// offers has rank 1 push a transfer of one copy that rank 0 expects; copied is called when it is
// made.
func offers(a, b *actor, key uint64, copied func()) {
	a.Expect(1, key, make([]byte, 10), func(error) { copied() })
	b.Push(0, key, make([]byte, 10), func(error) {})
}

// What stirs: a frame, one who comes, one who dies, and a queue that waits.
func TestStirs(t *testing.T) {
	for name, row := range map[string]func(a, b *actor){
		"a frame":      func(a, b *actor) { require.NoError(t, b.Send(0, word(1))) },
		"one comes":    func(a, b *actor) { a.box.head.joins.Add(1) },
		"one has died": func(a, b *actor) { a.peers.At(1).unreachable() },
		"a queue":      func(a, b *actor) { a.fills(t, 1) },
	} {
		a, b := twoRanks(t)
		require.False(t, a.stirs(), name)
		require.False(t, a.ready(), name)
		require.False(t, a.Poll(false), name)
		require.False(t, a.Midway(), name)
		row(a, b)
		require.True(t, a.stirs(), name)
		require.Equal(t, name != "a queue", a.ready(), name)
		require.Equal(t, name == "a queue", a.Midway(), name)
		a.looks(t)
		require.Equal(t, name == "a queue", a.stirs(), name)
		require.False(t, a.ready(), name)
	}
	// One who leaves writes what there is room for.
	a, b := twoRanks(t)
	n := a.fills(t, 1)
	b.looks(t)
	a.box.head.look.Store(0)
	a.leave()
	require.Zero(t, a.pending.Load())
	b.looks(t)
	require.Equal(t, sends(0, 1, n), b.hears())
}

// A poll that finds nothing leaves the look word alone; one that finds something raises it before
// it delivers, and keeps it so until the source is armed.
func TestPoll(t *testing.T) {
	a, b := twoRanks(t)
	require.False(t, a.Poll(false))
	require.Zero(t, a.box.head.look.Load())
	require.NoError(t, b.Send(0, word(1)))
	require.NoError(t, b.Send(0, word(2)))
	require.EqualValues(t, lookRung, a.box.head.look.Load())
	a.each = func(int, fabric.Frame) { require.EqualValues(t, lookAwake|lookRung, a.box.head.look.Load()) }
	require.True(t, a.Poll(false))
	require.Equal(t, sends(1, 1, 2), a.hears())
	require.EqualValues(t, lookAwake|lookRung, a.box.head.look.Load())
	require.False(t, a.Poll(false))
	require.Equal(t, fabric.ArmedFully, a.Arm(true, fabric.LeavingFound))
	require.EqualValues(t, lookRung, a.box.head.look.Load(), "the sleeper is on its way")
	// A frame that the caller has waited for ends the poll; what is behind it stays.
	a.each, a.met = nil, true
	for n := range 3 {
		require.NoError(t, b.Send(0, word(uint64(n)+1)))
	}
	for n := range 3 {
		require.True(t, a.Poll(false))
		require.Equal(t, sends(1, n+1, n+1), a.hears())
	}
	require.False(t, a.Poll(false))
}

// What is here when the source is armed is told, unless the sleeper is on its way; who may not
// deliver it wakes that.
func TestArm(t *testing.T) {
	a, b := twoRanks(t)
	rings := a.rings(t)
	for range 2 {
		require.Equal(t, fabric.ArmedFully, a.Arm(false, fabric.LeavingInVain))
		require.EqualValues(t, lookAwake, a.box.head.look.Load(), "once")
	}
	require.NoError(t, b.Send(0, word(1)))
	require.Equal(t, rings, a.rings(t), "somebody polls")
	require.Equal(t, fabric.SomethingHere, a.Arm(true, fabric.LeavingInVain))
	require.Zero(t, a.box.head.look.Load())
	require.Equal(t, fabric.SomethingHere, a.Arm(true, fabric.LeavingInVain), "still")
	a.RingDoorbell()
	require.EqualValues(t, lookRung, a.box.head.look.Load())
	require.Equal(t, rings+1, a.rings(t))
	a.RingDoorbell()
	require.Equal(t, rings+1, a.rings(t), "it was woken")
	require.Equal(t, fabric.ArmedFully, a.Arm(true, fabric.LeavingInVain), "the sleeper comes")
	require.Equal(t, fabric.Costs{}, a.Costs())
	require.Equal(t, []fabric.Source{a.Endpoint}, a.Sources())
	require.Equal(t, fabric.Caps{Kind: "shm", EagerLimit: EagerLimit, MaxFrame: MaxFrame, SharedMemory: true}, a.Caps(0))
}

// The sleeper says that it is up, and rings, for each byte; it ends when the endpoint is closed.
func TestSleeper(t *testing.T) {
	a, _ := twoRanks(t)
	for a.rings(t) > 0 {
		require.NoError(t, a.bell.wait())
	}
	a.box.head.look.Store(lookRung)
	a.bell.ring()
	a.bell.ring()
	var over sync.WaitGroup
	over.Go(a.sleeper)
	soon(t, func() bool { return a.rings(t) == 0 })
	a.closed.Store(true)
	a.bell.ring()
	over.Wait()
	require.Equal(t, 2, a.rung)
	require.Zero(t, a.box.head.look.Load())
}

// Copies are not made by the goroutine that polls, but by Work.
func TestCopiesWait(t *testing.T) {
	a, b := twoRanks(t)
	copies := 0
	for key := range uint64(3) {
		offers(a, b, key+1, func() { copies++ })
	}
	require.False(t, a.Waits())
	require.True(t, a.Midway(), "they are expected")
	require.True(t, a.looks(t))
	require.True(t, a.Waits())
	require.Zero(t, copies)
	a.Work()
	require.Equal(t, 3, copies)
	require.False(t, a.Waits())
	a.Work()
	require.Equal(t, 3, copies)
	a.Serve()
}

// Copies that nobody has made yet are made when the endpoint closes.
func TestCloseMakesCopies(t *testing.T) {
	a, b := twoRanks(t)
	copied := false
	offers(a, b, 1, func() { copied = true })
	a.looks(t)
	require.False(t, copied)
	require.NoError(t, a.Close())
	require.True(t, copied)
}

// Close waits, for a bounded time, for a goroutine that copies, though that has no turn: it uses
// memory that goes.
func TestCloseUnderACopy(t *testing.T) {
	for _, returns := range []bool{true, false} {
		a, b := twoRanks(t)
		in, out, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		offers(a, b, 1, func() { close(in); <-out })
		a.looks(t)
		go func() {
			defer close(over)
			a.Work()
		}()
		<-in
		if returns {
			closed := make(chan error)
			go func() { closed <- a.Close() }()
			for settles := false; !settles; runtime.Gosched() {
				a.bulk.mu.Lock()
				settles = a.bulk.still != nil
				a.bulk.mu.Unlock()
			}
			require.Empty(t, closed)
			close(out)
			require.NoError(t, <-closed)
			<-over
			continue
		}
		waitsFor(t, time.Millisecond)
		require.EqualError(t, a.Close(), "shm: somebody still copies a transfer")
		close(out)
		<-over
		for _, p := range a.peers.All() {
			p.leave()
		}
		require.NoError(t, a.release())
	}
}

// A handler that does not return keeps Close waiting for a bounded time, and keeps its memory.
// Close waits for the endpoint's own goroutine first.
func TestCloseUnderAHandler(t *testing.T) {
	eps := openAll(t, 2, nil)
	waitsFor(t, 20*time.Millisecond)
	hold := make(chan struct{})
	a := &actor{Endpoint: eps[0]}
	g := bindHeld(eps[0], a, hold)
	bind(eps[1], mute{})
	in, out := make(chan struct{}), make(chan struct{})
	got := ""
	a.each = func(_ int, f fabric.Frame) {
		in <- struct{}{}
		<-out
		got = string(f.Data)
	}
	looked := make(chan struct{})
	require.NoError(t, eps[1].Send(0, fabric.Frame{Data: []byte("data")}))
	go func() {
		defer close(looked)
		for !g.Poll() {
		}
	}()
	<-in
	close(hold)
	require.EqualError(t, a.Close(), "shm: somebody still looks at what has come")
	require.EqualError(t, a.Close(), "shm: somebody still looks at what has come", "it says so again")
	close(out)
	<-looked
	require.Equal(t, "data", got)
	for _, p := range a.peers.All() {
		p.leave()
	}
	require.NoError(t, a.release())
}
