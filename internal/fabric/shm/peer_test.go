//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// closes closes this side of a peer before the endpoint is closed.
func (p *peer) closes(t *testing.T) {
	p.close()
	t.Cleanup(func() { p.flushed = newSignal() })
}

// The first frame connects, and wakes the receiver. The next frames find that it was woken, or that
// a goroutine polls.
func TestConnects(t *testing.T) {
	s := newTestRanks(t, 3, nil)
	a, b := s[0], s[1]
	p := a.peers.At(1)
	require.Equal(t, idle, p.state)
	require.Zero(t, b.pendingRings(t))
	require.NoError(t, a.Send(1, word(1)))
	require.Equal(t, open, p.state)
	require.NotNil(t, p.watch, "its process is watched")
	require.EqualValues(t, 1, b.box.control(0).joined.Load())
	require.EqualValues(t, 1, b.box.head.joins.Load())
	require.EqualValues(t, 1, b.box.head.doorbellWord.Load())
	require.Equal(t, 1, b.pendingRings(t))
	require.NoError(t, a.Send(1, word(2)))
	require.NoError(t, s[2].Send(1, word(3)))
	require.EqualValues(t, 2, b.box.head.joins.Load())
	require.Equal(t, 1, b.pendingRings(t), "it was woken")
	require.Equal(t, idle, b.peers.At(0).state)
	require.True(t, b.drain(t))
	require.Equal(t, []string{"0 sends 1 to 2", "2 sends 3"}, b.takeLog())
	require.Zero(t, a.pendingRings(t), "no producer waits for room")
	require.Zero(t, a.box.head.doorbellWord.Load())
	for _, from := range []int{0, 2} {
		require.Equal(t, open, b.peers.At(from).state, "a peer that has sent is watched, and can be woken")
		require.True(t, b.peers.At(from).joined)
	}
	require.EqualValues(t, 2, b.joins)
	require.Len(t, b.active, 2)
	require.False(t, b.drain(t))
	// A goroutine polls.
	b.box.head.doorbellWord.Store(0)
	b.Arm(false, fabric.LeavingInVain)
	require.EqualValues(t, 2, b.box.head.doorbellWord.Load())
	require.NoError(t, a.Send(1, word(4)))
	require.Equal(t, 1, b.pendingRings(t))
	b.leave()
	require.Zero(t, b.box.head.doorbellWord.Load())
	require.Equal(t, []string{"0 sends 4"}, b.takeLog(), "the goroutine that leaves takes the frame")
	require.NoError(t, a.Send(1, word(5)))
	require.Equal(t, 2, b.pendingRings(t), "no goroutine polls any more")
	require.EqualValues(t, 1, b.box.head.doorbellWord.Load())
}

// Frames without room wait at the sender, in order and unchanged, until the receiver reports room.
func TestQueue(t *testing.T) {
	s := newTestRanks(t, 3, func(c *Config) { c.SingleCopy = -1 })
	a, b := s[0], s[1]
	connectAll(t, s)
	p := a.peers.At(1)
	n := a.fillRing(t, 1) // the last one waits
	require.EqualValues(t, 1, a.pending.Load())
	require.EqualValues(t, 1, p.out.ctl.waiting.Load())
	data := []byte{1, 2, 3}
	f := fabric.Frame{Head: word(uint64(n) + 1).Head, Data: data}
	require.NoError(t, a.Send(1, f))
	clear(data)
	var sent, got ends
	long := startTransfer(a, b, &sent, &got, 7, 5)
	require.Len(t, p.queue, 3)
	sent.is(t, nil)
	require.EqualValues(t, 1, a.pending.Load(), "peers, not frames")
	b.box.head.doorbellWord.Store(0)
	rings := b.pendingRings(t)
	require.False(t, p.flush(), "there is no room")
	require.Equal(t, rings, b.pendingRings(t), "nothing was written")
	require.Zero(t, b.box.head.doorbellWord.Load())
	require.False(t, a.drain(t))

	rings = a.pendingRings(t)
	a.box.head.doorbellWord.Store(0)
	var seen []byte
	b.each = func(_ int, f fabric.Frame) { seen = append(seen, f.Data...) }
	require.True(t, b.drain(t))
	require.Equal(t, sends(0, 1, n-1), b.takeLog())
	require.Equal(t, rings+1, a.pendingRings(t), "its doorbell goroutine wakes: there is room")
	require.EqualValues(t, 1, a.box.head.doorbellWord.Load())
	require.Zero(t, p.out.ctl.waiting.Load())
	b.box.head.doorbellWord.Store(0)
	rings = b.pendingRings(t)
	require.True(t, a.drain(t))
	require.Equal(t, rings+1, b.pendingRings(t))
	require.Zero(t, a.pending.Load())
	require.False(t, p.queued.Load())
	require.Nil(t, p.queue, "its memory is given back")
	sent.is(t, map[uint64]string{7: ""})
	require.False(t, p.flush(), "nothing waits")
	require.False(t, a.drain(t))
	require.True(t, b.drain(t))
	require.Equal(t, sends(0, n, n+1), b.takeLog())
	require.Equal(t, []byte{1, 2, 3}, seen)
	got.is(t, map[uint64]string{7: ""})
	long.has(t, 0, 5)
	require.Zero(t, p.out.ctl.waiting.Load())

	// Room at one of two.
	other := a.fillRing(t, 2)
	a.fillRing(t, 1)
	require.EqualValues(t, 2, a.pending.Load())
	b.drain(t)
	b.takeLog()
	require.True(t, a.Poll(false))
	require.False(t, a.Poll(false))
	require.EqualValues(t, 1, a.pending.Load())
	s[2].drain(t)
	require.True(t, a.Poll(false))
	a.leave()
	b.drain(t)
	s[2].drain(t)
	require.Equal(t, sends(0, 1, other), s[2].takeLog())
	b.takeLog()

	// Room for some of the frames: the rest go on waiting, and the sender waits to be woken again.
	n = a.fillRing(t, 1)
	for k := range 200 {
		require.NoError(t, a.Send(1, word(uint64(n+1+k))))
	}
	var took fabric.Frame
	in := &b.peers.At(0).in
	for range 100 {
		_, k, err := in.get(&took)
		require.NoError(t, err)
		in.done(k)
	}
	in.publish()
	b.leave()
	b.takeLog()
	require.Zero(t, p.out.ctl.waiting.Load())
	_ = p.flush()
	require.True(t, b.drain(t))
	for a.drain(t) || b.drain(t) {
	}
	said := b.takeLog()
	require.Equal(t, sends(0, 101, n+200), said)
	require.Zero(t, a.pending.Load())
}

// A receiver that has begun to close wakes a sender that waits for room, if the two are connected.
func TestRingForRoom(t *testing.T) {
	for _, row := range []struct {
		name  string
		knows bool // the receiver has connected with the sender
		state state
		wakes bool
	}{
		{"open", true, open, true},
		{"closing", true, closing, true},
		{"closing, and it has not connected", false, closing, false},
		{"not connected", false, idle, false},
		{"lost", true, lost, false},
	} {
		s := newTestRanks(t, 2, nil)
		a, b := s[0], s[1]
		p := b.peers.At(0)
		if row.knows {
			p.connectBack()
		}
		p.state = row.state
		a.box.head.doorbellWord.Store(0)
		rings := a.pendingRings(t)
		p.ringForRoom()
		if row.wakes {
			rings++
		}
		require.Equal(t, rings, a.pendingRings(t), row.name)
		require.EqualValues(t, map[bool]int{false: 0, true: 1}[row.wakes], a.box.head.doorbellWord.Load(), row.name)
		p.state = max(idle, row.state)
	}
	// The third case as it happens: the receiver has closed its side before the first frame
	// arrived.
	s := newTestRanks(t, 2, nil)
	a, b := s[0], s[1]
	b.peers.At(0).closes(t)
	require.Equal(t, closing, b.peers.At(0).state)
	require.Nil(t, b.peers.At(0).box)
	n := a.fillRing(t, 1)
	require.True(t, b.drain(t))
	require.Equal(t, sends(0, 1, n-1), b.takeLog())
	require.Zero(t, a.pendingRings(t))
}

// A peer ends once. Its queued frames and transfers end with the first reason.
func TestLose(t *testing.T) {
	first, later := errors.New("first"), errors.New("later")
	for name, row := range map[string]struct {
		before func(t *testing.T, a *testRank, p *peer)
		err    error
		told   string
		want   string
	}{
		"lost":                    {nil, first, "1 is lost: shm: rank 1: first", "shm: rank 1: first"},
		"it has said goodbye":     {nil, nil, "", "fabric: endpoint is closed: by rank 1"},
		"it could not be reached": {func(_ *testing.T, _ *testRank, p *peer) { p.err = later }, first, "1 is lost: later", "later"},
		"this side closes":        {func(t *testing.T, _ *testRank, p *peer) { p.closes(t) }, first, "", "shm: rank 1: first"},
		"both close":              {func(t *testing.T, _ *testRank, p *peer) { p.closes(t) }, nil, "", "fabric: endpoint is closed: by rank 1"},
		"it was lost before":      {func(_ *testing.T, a *testRank, p *peer) { p.lose(later); a.takeLog() }, first, "", "shm: rank 1: later"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestRanks(t, 3, func(c *Config) { c.SingleCopy = -1 })
			a := s[0]
			connectAll(t, s)
			p := a.peers.At(1)
			a.fillRing(t, 1)
			var sent, got ends
			a.Push(1, 7, make([]byte, 5), sent.done(7))
			a.Expect(1, 8, make([]byte, 5), got.done(8))
			a.Expect(2, 8, make([]byte, 5), got.done(9))
			if row.before != nil {
				row.before(t, a, p)
			}
			p.lose(row.err)
			sent.is(t, map[uint64]string{7: row.want})
			got.is(t, map[uint64]string{8: row.want})
			if row.told != "" {
				require.Equal(t, []string{row.told}, a.takeLog())
			}
			for _, err := range []error{row.err, later, nil} {
				p.lose(err)
				require.Empty(t, a.takeLog())
			}
			require.Equal(t, lost, p.state)
			require.True(t, p.gone.Load())
			require.Nil(t, p.queue)
			require.False(t, p.queued.Load())
			require.Zero(t, a.pending.Load())
			require.EqualError(t, a.Send(1, word(1)), row.want)
			a.Push(1, 10, make([]byte, 1), sent.done(10))
			sent.is(t, map[uint64]string{7: row.want, 10: row.want})
			require.False(t, p.flush())
			if closes := name == "this side closes" || name == "both close"; closes {
				<-p.flushed.ch // the closing frame never will be written
			} else {
				p.closes(t)
				<-p.flushed.ch
				require.Equal(t, lost, p.state)
			}
			a.peers.At(2).lose(first)
			require.Zero(t, a.pending.Load(), "no frames were queued for it")
			got.is(t, map[uint64]string{8: row.want, 9: "first"})
		})
	}
}

// A peer whose ring is damaged ends, also if there is nothing else to poll.
func TestDamagedRingEndsThePeer(t *testing.T) {
	s := newTestRanks(t, 2, nil)
	a := s[0]
	connectAll(t, s)
	in := a.peers.At(1).in
	off := in.pos & (ringSize - 1)
	in.word(off).Store(5)
	require.True(t, a.drain(t))
	require.Equal(t, []string{fmt.Sprintf("1 is lost: shm: rank 1: a malformed frame at byte %d of its ring: first word 0x5", off)}, a.takeLog())
	require.True(t, a.peers.At(1).gone.Load())
	require.False(t, a.drain(t))
}

// A side that closes sends a closing frame to each peer that it is connected with in either
// direction, when there is room. Other peers get nothing.
func TestPeerCloses(t *testing.T) {
	closedBy := func(t *testing.T, a, b *testRank, last int) {
		// b takes the frames, and the closing frame after them
		t.Helper()
		for b.drain(t) || a.drain(t) {
		}
		require.Equal(t, sends(0, 1, last), b.takeLog())
		require.ErrorIs(t, b.Send(0, word(1)), fabric.ErrClosed)
		require.EqualError(t, b.Send(0, word(1)), "fabric: endpoint is closed: by rank 0")
	}
	flushed := func(p *peer) bool {
		select {
		case <-p.flushed.ch:
			return true
		default:
			return false
		}
	}
	t.Run("unknown", func(t *testing.T) {
		s := newTestRanks(t, 2, nil)
		p := s[0].peers.At(1)
		p.closes(t)
		require.True(t, flushed(p))
		require.Equal(t, closing, p.state)
		require.Nil(t, p.box)
		require.Equal(t, fabric.ErrClosed, s[0].Send(1, word(1)))
	})
	t.Run("it has sent", func(t *testing.T) {
		s := newTestRanks(t, 2, nil)
		require.NoError(t, s[1].Send(0, word(1)))
		p := s[0].peers.At(1)
		p.closes(t)
		require.True(t, flushed(p))
		require.NotNil(t, p.box)
		closedBy(t, s[0], s[1], 0)
	})
	t.Run("known", func(t *testing.T) {
		s := newTestRanks(t, 2, nil)
		require.NoError(t, s[0].Send(1, word(1)))
		p := s[0].peers.At(1)
		p.closes(t)
		require.True(t, flushed(p))
		require.Equal(t, closing, p.state)
		require.Equal(t, fabric.ErrClosed, s[0].Send(1, word(1)))
		in := s[1].box.incoming(0)
		require.EqualValues(t, kindClose, in.at(lineSize)&^valid>>kindShift)
		closedBy(t, s[0], s[1], 1)
	})
	t.Run("no room", func(t *testing.T) {
		s := newTestRanks(t, 2, nil)
		n := s[0].fillRing(t, 1)
		p := s[0].peers.At(1)
		p.closes(t)
		require.False(t, flushed(p))
		require.Equal(t, fabric.ErrClosed, s[0].Send(1, word(1)))
		require.Len(t, p.queue, 2)
		closedBy(t, s[0], s[1], n)
		require.True(t, flushed(p))
	})
}

// When the endpoint closes, frames and transfers that no peer takes end, and expected transfers
// too.
func TestCloseEndsAll(t *testing.T) {
	for _, single := range []int{1, -1} {
		hold := make(chan struct{})
		setCloseTimeout(t, 0)
		eps := openAll(t, 2, func(c *Config) { c.SingleCopy = single })
		t.Cleanup(func() { close(hold) })
		bind(eps[0], mute{})
		bindHeld(eps[1], mute{}, hold)
		a := &testRank{Endpoint: eps[0]}
		a.fillRing(t, 1)
		var sent, got ends
		a.Push(1, 1, make([]byte, 100), sent.done(1))
		a.Push(1, 2, make([]byte, 3*piece), sent.done(2))
		a.Expect(1, 3, make([]byte, 100), got.done(3))
		require.NoError(t, a.Close())
		closed := "fabric: endpoint is closed"
		sent.is(t, map[uint64]string{1: closed, 2: closed})
		got.is(t, map[uint64]string{3: closed})
		require.Nil(t, a.peers.At(1).queue)
		require.NoError(t, a.Close())
		a.Expect(1, 4, make([]byte, 100), got.done(4))
		got.is(t, map[uint64]string{3: closed, 4: closed})
	}
}

// An endpoint without a handler waits for nothing when it closes.
func TestCloseUnbound(t *testing.T) {
	for _, single := range []int{1, -1} {
		e := openAll(t, 2, func(c *Config) { c.SingleCopy = single })[0]
		setCloseTimeout(t, time.Hour)
		a := &testRank{Endpoint: e}
		var sent ends
		a.Push(1, 1, make([]byte, 100), sent.done(1))
		a.fillRing(t, 1)
		a.Push(1, 2, make([]byte, 100), sent.done(2))
		require.NoError(t, a.Close())
		closed := "fabric: endpoint is closed"
		if single == 1 {
			sent.is(t, map[uint64]string{1: closed, 2: closed})
		} else {
			sent.is(t, map[uint64]string{1: "", 2: closed})
		}
		setCloseTimeout(t, 5*time.Second)
	}
}

// Drop makes a rank lost at once, whatever is in its ring, if it is another rank of the job and the
// endpoint is bound and open.
func TestDrop(t *testing.T) {
	gone := errors.New("gone")
	s := newTestRanks(t, 3, nil)
	a, b := s[0], s[1]
	connectAll(t, s)
	rings := a.pendingRings(t)
	for _, rank := range []int{-1, 0, 3, 4} {
		a.Drop(rank, gone)
	}
	require.Empty(t, a.takeLog())
	require.Equal(t, rings, a.pendingRings(t))
	require.NoError(t, a.Send(0, word(9)))
	a.takeLog()
	require.NoError(t, b.Send(0, word(1)))
	require.NoError(t, s[2].Send(0, word(2)))
	a.box.head.doorbellWord.Store(3) // a goroutine polls; a producer may have died before its byte
	rings = a.pendingRings(t)
	a.Drop(1, gone)
	require.Equal(t, rings+1, a.pendingRings(t))
	a.box.head.doorbellWord.Store(1)
	require.Equal(t, []string{"1 is lost: shm: rank 1: gone"}, a.takeLog())
	require.True(t, a.drain(t))
	require.Equal(t, []string{"2 sends 2"}, a.takeLog(), "nothing of it is taken")
	require.Len(t, a.active, 1)
	require.NoError(t, b.Send(0, word(1)))
	require.False(t, a.drain(t))
	// Frames of a peer that connects after Drop are not taken either.
	s = newTestRanks(t, 2, nil)
	s[0].Drop(1, gone)
	require.NoError(t, s[1].Send(0, word(1)))
	s[0].takeLog()
	require.True(t, s[0].drain(t))
	require.Empty(t, s[0].takeLog())
	require.True(t, s[0].peers.At(1).joined)
	require.Empty(t, s[0].active)
	require.False(t, s[0].drain(t))
	// Before the endpoint is bound, and after it is closed.
	e, err := New(Config{Size: 2})
	require.NoError(t, err)
	e.Drop(1, gone)
	require.Equal(t, idle, e.peers.At(1).state)
	h := &testRank{Endpoint: e}
	bind(e, h)
	bind(e, mute{})
	require.Same(t, h, e.Local(0), "the first handler stays")
	require.Nil(t, e.Local(1))
	require.NoError(t, e.Close())
	e.peers.At(1).state = open
	e.Drop(1, gone)
	require.Empty(t, h.takeLog())
}

// A peer whose process has ended is lost after its last frame is taken, however many frames there
// are.
func TestHandleDeaths(t *testing.T) {
	s := newTestRanks(t, 4, nil)
	a := s[0]
	connectAll(t, s)
	for _, from := range []int{1, 2} {
		for k := range 2*batch + 5 {
			require.NoError(t, s[from].Send(0, word(uint64(k)+1)))
		}
	}
	p := a.peers.At(1)
	rings := a.pendingRings(t)
	p.unreachable()
	p.unreachable()
	require.EqualValues(t, 1, a.deaths.Load(), "once")
	require.Equal(t, rings+1, a.pendingRings(t), "the doorbell goroutine wakes once")
	var want []string
	for _, part := range [][2]int{{1, batch}, {batch + 1, 2 * batch}, {2*batch + 1, 2*batch + 5}} {
		require.True(t, a.Poll(false))
		a.disarmed = false
		want = append(sends(1, part[0], part[1]), sends(2, part[0], part[1])...)
		if part[1] == 2*batch+5 {
			want = append(want, fmt.Sprintf("1 is lost: shm: rank 1: its process %d has ended", p.pid))
		}
		require.Equal(t, want, a.takeLog(), "frames of one rank do not delay frames of another")
	}
	require.Zero(t, a.deaths.Load())
	require.True(t, p.deathHandled)
	a.box.head.doorbellWord.Store(1)
	require.False(t, a.drain(t))
	require.Len(t, a.active, 2)
	// A peer that was dropped is lost at once.
	require.NoError(t, s[3].Send(0, word(1)))
	a.peers.At(3).gone.Store(true)
	a.peers.At(3).unreachable()
	require.True(t, a.drain(t))
	require.Zero(t, a.deaths.Load())
	require.Equal(t, []string{fmt.Sprintf("3 is lost: shm: rank 3: its process %d has ended", p.pid)}, a.takeLog())
	// A peer that has never sent, and one that has connected since the last poll.
	s = newTestRanks(t, 3, nil)
	a = s[0]
	a.peers.At(2).connectBack()
	a.peers.At(1).unreachable()
	require.NoError(t, s[2].Send(0, word(1)))
	a.joins = a.box.head.joins.Load()
	a.peers.At(2).unreachable()
	a.handleDeaths()
	require.Len(t, a.takeLog(), 1)
	require.EqualValues(t, 1, a.deaths.Load())
	require.True(t, a.Poll(false))
	a.leave()
	require.Equal(t, []string{"2 sends 1", fmt.Sprintf("2 is lost: shm: rank 2: its process %d has ended", a.peers.At(2).pid)}, a.takeLog())
}

// If there is no pidfd of a process, the process has ended, or it is not watched.
func TestWatchProcess(t *testing.T) {
	e := newTestRanks(t, 2, nil)[0]
	p := e.peers.At(1)
	for _, row := range []struct {
		pid  int
		dead bool
	}{{-1, false}, {noProcess, true}} {
		p.pid = row.pid
		deaths := e.deaths.Load()
		p.watchProcess()
		require.Equal(t, row.dead, p.dead.Load(), "process %d", row.pid)
		require.Equal(t, row.dead, e.deaths.Load() > deaths)
		require.Nil(t, p.watch)
	}
	p.unwatch()
}

// reach enables single copies if it can read the inbox's token at the address in the process's
// memory.
func TestReach(t *testing.T) {
	s := newTestRanks(t, 2, nil)
	a, b := s[0], s[1]
	wrong := errors.New("no such address")
	for _, row := range []struct {
		addr string
		err  error
		copy bool
		want string
	}{
		{b.Addr(), nil, true, ""},
		{b.Addr()[:len(b.Addr())-len(fmt.Sprintf("%x", address(b.box.head.token[:])))] + fmt.Sprintf("%x", address(b.box.mem)), nil, false, ""},
		{b.Addr()[:len(b.Addr())-len(fmt.Sprintf("%x", address(b.box.head.token[:])))] + "1", nil, false, ""},
		{"", wrong, false, "no such address"},
	} {
		p := newPeer(a.Endpoint, 1)
		a.cfg.Lookup = func(rank int) (string, error) {
			require.Equal(t, 1, rank)
			return row.addr, row.err
		}
		err := p.reach()
		if row.want != "" {
			require.EqualError(t, err, row.want)
			require.Nil(t, p.box)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.copy, p.singleCopy)
		p.box.unmap()
		p.doorbell.close()
	}
	a.cfg.Lookup = func(int) (string, error) { return "", wrong }
	require.EqualError(t, a.Send(1, word(1)), "shm: rank 1: no such address")
	a.cfg.Lookup = nil // it is called once
	require.EqualError(t, a.Send(1, word(1)), "shm: rank 1: no such address")
	_, err := a.Shared(1)
	require.EqualError(t, err, "shm: rank 1: no such address")
	require.True(t, a.peers.At(1).dead.Load())
	require.True(t, a.drain(t))
	require.Equal(t, []string{"1 is lost: shm: rank 1: no such address"}, a.takeLog())
}

// All ranks see the same shared memory of a rank, and each rank has its own.
func TestShared(t *testing.T) {
	s := newTestRanks(t, 3, nil)
	for owner := range s {
		for i, a := range s {
			mem, err := a.Shared(owner)
			require.NoError(t, err)
			require.Len(t, mem, sharedSize)
			require.Zero(t, address(mem)%lineSize)
			for k := range s {
				want := byte(0)
				if k < i {
					want = byte(owner + 1)
				}
				require.Equal(t, want, mem[k], "rank %d of %d at %d", k, owner, i)
			}
			mem[i] = byte(owner + 1)
		}
	}
	s[0].Drop(1, errors.New("gone"))
	_, err := s[0].Shared(1)
	require.ErrorContains(t, err, "gone")
}
