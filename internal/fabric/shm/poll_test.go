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

// twoRanks returns two connected ranks; transfers are of one copy.
func twoRanks(t *testing.T) (a, b *testRank) {
	s := newTestRanks(t, 2, func(c *Config) { c.SingleCopy = 1 })
	connectAll(t, s)
	for _, a := range s {
		a.box.head.doorbellWord.Store(0)
	}
	return s[0], s[1]
}

// offers has rank 1 push a transfer of one copy that rank 0 expects; copied is called after the
// copy.
func offers(a, b *testRank, key uint64, copied func()) {
	a.Expect(1, key, make([]byte, 10), func(error) { copied() })
	b.Push(0, key, make([]byte, 10), func(error) {})
}

// There is work after a frame, a new producer, a death, or with a queue.
func TestHasWork(t *testing.T) {
	for name, row := range map[string]func(a, b *testRank){
		"a frame":    func(a, b *testRank) { require.NoError(t, b.Send(0, word(1))) },
		"a producer": func(a, b *testRank) { a.box.head.joins.Add(1) },
		"a death":    func(a, b *testRank) { a.peers.At(1).unreachable() },
		"a queue":    func(a, b *testRank) { a.fillRing(t, 1) },
	} {
		a, b := twoRanks(t)
		require.False(t, a.hasWork(), name)
		require.False(t, a.flushAndCheck(), name)
		require.False(t, a.Poll(false), name)
		require.False(t, a.Midway(), name)
		row(a, b)
		require.True(t, a.hasWork(), name)
		require.Equal(t, name != "a queue", a.flushAndCheck(), name)
		require.Equal(t, name == "a queue", a.Midway(), name)
		a.drain(t)
		require.Equal(t, name == "a queue", a.hasWork(), name)
		require.False(t, a.flushAndCheck(), name)
	}
	// A goroutine that leaves moves queued frames that have room.
	a, b := twoRanks(t)
	n := a.fillRing(t, 1)
	b.drain(t)
	a.box.head.doorbellWord.Store(0)
	a.leave()
	require.Zero(t, a.pending.Load())
	b.drain(t)
	require.Equal(t, sends(0, 1, n), b.takeLog())
}

// A poll that finds nothing leaves the doorbell word alone. A poll that finds something disarms
// before it delivers, and the source stays disarmed until Arm.
func TestPoll(t *testing.T) {
	a, b := twoRanks(t)
	require.False(t, a.Poll(false))
	require.Zero(t, a.box.head.doorbellWord.Load())
	require.NoError(t, b.Send(0, word(1)))
	require.NoError(t, b.Send(0, word(2)))
	require.EqualValues(t, wordRung, a.box.head.doorbellWord.Load())
	a.each = func(int, fabric.Frame) { require.EqualValues(t, wordDisarmed|wordRung, a.box.head.doorbellWord.Load()) }
	require.True(t, a.Poll(false))
	require.Equal(t, sends(1, 1, 2), a.takeLog())
	require.EqualValues(t, wordDisarmed|wordRung, a.box.head.doorbellWord.Load())
	require.False(t, a.Poll(false))
	require.Equal(t, fabric.ArmedFully, a.Arm(true, fabric.LeavingFound))
	require.EqualValues(t, wordRung, a.box.head.doorbellWord.Load(), "the doorbell goroutine is on its way")
	// A frame that the caller has waited for ends the poll; the frames after it stay.
	a.each, a.met = nil, true
	for n := range 3 {
		require.NoError(t, b.Send(0, word(uint64(n)+1)))
	}
	for n := range 3 {
		require.True(t, a.Poll(false))
		require.Equal(t, sends(1, n+1, n+1), a.takeLog())
	}
	require.False(t, a.Poll(false))
}

// Arm reports frames that are there, unless the doorbell goroutine is on its way. RingDoorbell
// wakes that goroutine once.
func TestArm(t *testing.T) {
	a, b := twoRanks(t)
	rings := a.pendingRings(t)
	for range 2 {
		require.Equal(t, fabric.ArmedFully, a.Arm(false, fabric.LeavingInVain))
		require.EqualValues(t, wordDisarmed, a.box.head.doorbellWord.Load(), "once")
	}
	require.NoError(t, b.Send(0, word(1)))
	require.Equal(t, rings, a.pendingRings(t), "a goroutine polls")
	require.Equal(t, fabric.SomethingHere, a.Arm(true, fabric.LeavingInVain))
	require.Zero(t, a.box.head.doorbellWord.Load())
	require.Equal(t, fabric.SomethingHere, a.Arm(true, fabric.LeavingInVain), "still")
	a.RingDoorbell()
	require.EqualValues(t, wordRung, a.box.head.doorbellWord.Load())
	require.Equal(t, rings+1, a.pendingRings(t))
	a.RingDoorbell()
	require.Equal(t, rings+1, a.pendingRings(t), "it was woken")
	require.Equal(t, fabric.ArmedFully, a.Arm(true, fabric.LeavingInVain), "the doorbell goroutine comes")
	require.Equal(t, fabric.Costs{}, a.Costs())
	require.Equal(t, []fabric.Source{a.Endpoint}, a.Sources())
	require.Equal(t, fabric.Caps{Kind: "shm", EagerLimit: EagerLimit, MaxFrame: MaxFrame, SharedMemory: true}, a.Caps(0))
}

// For each byte, the doorbell goroutine clears the rung bit and calls Ring. It ends when the
// endpoint is closed.
func TestDoorbellLoop(t *testing.T) {
	a, _ := twoRanks(t)
	for a.pendingRings(t) > 0 {
		require.NoError(t, a.doorbell.wait())
	}
	a.box.head.doorbellWord.Store(wordRung)
	a.doorbell.ring()
	a.doorbell.ring()
	var over sync.WaitGroup
	over.Go(a.doorbellLoop)
	eventually(t, func() bool { return a.pendingRings(t) == 0 })
	a.closed.Store(true)
	a.doorbell.ring()
	over.Wait()
	require.Equal(t, 2, a.rung)
	require.Zero(t, a.box.head.doorbellWord.Load())
}

// Work makes the copies, not Poll.
func TestCopiesWait(t *testing.T) {
	a, b := twoRanks(t)
	copies := 0
	for key := range uint64(3) {
		offers(a, b, key+1, func() { copies++ })
	}
	require.False(t, a.Waits())
	require.True(t, a.Midway(), "they are expected")
	require.True(t, a.drain(t))
	require.True(t, a.Waits())
	require.Zero(t, copies)
	a.Work()
	require.Equal(t, 3, copies)
	require.False(t, a.Waits())
	a.Work()
	require.Equal(t, 3, copies)
	a.Serve()
}

// Close makes the copies that are still queued.
func TestCloseMakesCopies(t *testing.T) {
	a, b := twoRanks(t)
	copied := false
	offers(a, b, 1, func() { copied = true })
	a.drain(t)
	require.False(t, copied)
	require.NoError(t, a.Close())
	require.True(t, copied)
}

// Close waits, for a bounded time, for a goroutine that copies without the turn: the goroutine uses
// memory that Close unmaps.
func TestCloseUnderACopy(t *testing.T) {
	for _, returns := range []bool{true, false} {
		a, b := twoRanks(t)
		in, out, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		offers(a, b, 1, func() { close(in); <-out })
		a.drain(t)
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
				settles = a.bulk.idle != nil
				a.bulk.mu.Unlock()
			}
			require.Empty(t, closed)
			close(out)
			require.NoError(t, <-closed)
			<-over
			continue
		}
		setCloseTimeout(t, time.Millisecond)
		require.EqualError(t, a.Close(), "shm: a goroutine still copies a transfer; its memory stays mapped")
		close(out)
		<-over
		for _, p := range a.peers.All() {
			p.leave()
		}
		require.NoError(t, a.release())
	}
}

// Close waits for a handler that does not return, for a bounded time, and then leaves the memory
// mapped. Close waits for the doorbell goroutine first.
func TestCloseUnderAHandler(t *testing.T) {
	eps := openAll(t, 2, nil)
	setCloseTimeout(t, 20*time.Millisecond)
	hold := make(chan struct{})
	a := &testRank{Endpoint: eps[0]}
	g := bindHeld(eps[0], a, hold)
	bind(eps[1], mute{})
	in, out := make(chan struct{}), make(chan struct{})
	got := ""
	a.each = func(_ int, f fabric.Frame) {
		in <- struct{}{}
		<-out
		got = string(f.Data)
	}
	polled := make(chan struct{})
	require.NoError(t, eps[1].Send(0, fabric.Frame{Data: []byte("data")}))
	go func() {
		defer close(polled)
		for !g.Poll() {
		}
	}()
	<-in
	close(hold)
	const want = "shm: a goroutine still polls, or handles a frame; its memory stays mapped"
	require.EqualError(t, a.Close(), want)
	require.EqualError(t, a.Close(), want, "the second call returns the same")
	close(out)
	<-polled
	require.Equal(t, "data", got)
	for _, p := range a.peers.All() {
		p.leave()
	}
	require.NoError(t, a.release())
}
