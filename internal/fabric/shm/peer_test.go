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

// closes has a peer's side closed before the endpoint is.
func (p *peer) closes(t *testing.T) {
	p.close()
	t.Cleanup(func() { p.flushed = newSignal() })
}

// The first frame connects, and wakes the receiver; the next ones find that it was woken, or that
// somebody looks.
func TestConnects(t *testing.T) {
	s := onStage(t, 3, nil)
	a, b := s[0], s[1]
	p := a.peers.At(1)
	require.Equal(t, idle, p.state)
	require.Zero(t, b.rings(t))
	require.NoError(t, a.Send(1, word(1)))
	require.Equal(t, open, p.state)
	require.NotNil(t, p.watch, "its end is seen")
	require.EqualValues(t, 1, b.box.control(0).joined.Load())
	require.EqualValues(t, 1, b.box.head.joins.Load())
	require.EqualValues(t, 1, b.box.head.look.Load())
	require.Equal(t, 1, b.rings(t))
	require.NoError(t, a.Send(1, word(2)))
	require.NoError(t, s[2].Send(1, word(3)))
	require.EqualValues(t, 2, b.box.head.joins.Load())
	require.Equal(t, 1, b.rings(t), "it was woken")
	require.Equal(t, idle, b.peers.At(0).state)
	require.True(t, b.looks(t))
	require.Equal(t, []string{"0 sends 1 to 2", "2 sends 3"}, b.hears())
	require.Zero(t, a.rings(t), "nobody waits for room")
	require.Zero(t, a.box.head.look.Load())
	for _, from := range []int{0, 2} {
		require.Equal(t, open, b.peers.At(from).state, "who has sent is watched, and can be woken")
		require.True(t, b.peers.At(from).joined)
	}
	require.EqualValues(t, 2, b.joins)
	require.Len(t, b.active, 2)
	require.False(t, b.looks(t))
	// Somebody looks.
	b.box.head.look.Store(0)
	b.Arm(false, fabric.LeavingInVain)
	require.EqualValues(t, 2, b.box.head.look.Load())
	require.NoError(t, a.Send(1, word(4)))
	require.Equal(t, 1, b.rings(t))
	b.leave()
	require.Zero(t, b.box.head.look.Load())
	require.Equal(t, []string{"0 sends 4"}, b.hears(), "who leaves takes what has come")
	require.NoError(t, a.Send(1, word(5)))
	require.Equal(t, 2, b.rings(t), "nobody looks any more")
	require.EqualValues(t, 1, b.box.head.look.Load())
}

// What has no room waits at the sender, in order and as it was, until the receiver says that there
// is room again.
func TestQueue(t *testing.T) {
	s := onStage(t, 3, func(c *Config) { c.SingleCopy = -1 })
	a, b := s[0], s[1]
	meet(t, s)
	p := a.peers.At(1)
	n := a.fills(t, 1) // the last one waits
	require.EqualValues(t, 1, a.pending.Load())
	require.EqualValues(t, 1, p.out.ctl.waiting.Load())
	data := []byte{1, 2, 3}
	f := fabric.Frame{Head: word(uint64(n) + 1).Head, Data: data}
	require.NoError(t, a.Send(1, f))
	clear(data)
	var sent, got ends
	long := pushed(a, b, &sent, &got, 7, 5)
	require.Len(t, p.queue, 3)
	sent.is(t, nil)
	require.EqualValues(t, 1, a.pending.Load(), "peers, not frames")
	b.box.head.look.Store(0)
	rings := b.rings(t)
	require.False(t, p.flush(), "there is no room")
	require.Equal(t, rings, b.rings(t), "nothing was written")
	require.Zero(t, b.box.head.look.Load())
	require.False(t, a.looks(t))

	rings = a.rings(t)
	a.box.head.look.Store(0)
	var seen []byte
	b.each = func(_ int, f fabric.Frame) { seen = append(seen, f.Data...) }
	require.True(t, b.looks(t))
	require.Equal(t, sends(0, 1, n-1), b.hears())
	require.Equal(t, rings+1, a.rings(t), "its sleeper wakes, for there is room")
	require.EqualValues(t, 1, a.box.head.look.Load())
	require.Zero(t, p.out.ctl.waiting.Load())
	b.box.head.look.Store(0)
	rings = b.rings(t)
	require.True(t, a.looks(t))
	require.Equal(t, rings+1, b.rings(t))
	require.Zero(t, a.pending.Load())
	require.False(t, p.queued.Load())
	require.Nil(t, p.queue, "its memory is given back")
	sent.is(t, map[uint64]string{7: ""})
	require.False(t, p.flush(), "nothing waits")
	require.False(t, a.looks(t))
	require.True(t, b.looks(t))
	require.Equal(t, sends(0, n, n+1), b.hears())
	require.Equal(t, []byte{1, 2, 3}, seen)
	got.is(t, map[uint64]string{7: ""})
	long.has(t, 0, 5)
	require.Zero(t, p.out.ctl.waiting.Load())

	// Room at one of two.
	other := a.fills(t, 2)
	a.fills(t, 1)
	require.EqualValues(t, 2, a.pending.Load())
	b.looks(t)
	b.hears()
	require.True(t, a.Poll(false))
	require.False(t, a.Poll(false))
	require.EqualValues(t, 1, a.pending.Load())
	s[2].looks(t)
	require.True(t, a.Poll(false))
	a.leave()
	b.looks(t)
	s[2].looks(t)
	require.Equal(t, sends(0, 1, other), s[2].hears())
	b.hears()

	// Room for some of it: the rest waits on, and the sender waits to be told again.
	n = a.fills(t, 1)
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
	b.hears()
	require.Zero(t, p.out.ctl.waiting.Load())
	_ = p.flush()
	require.True(t, b.looks(t))
	for a.looks(t) || b.looks(t) {
	}
	said := b.hears()
	require.Equal(t, sends(0, 101, n+200), said)
	require.Zero(t, a.pending.Load())
}

// A receiver that has begun to close wakes a sender that waits for room, if it can; one that has
// never spoken to it cannot.
func TestRouse(t *testing.T) {
	for _, row := range []struct {
		name  string
		knows bool // the receiver has connected with the sender
		state state
		wakes bool
	}{
		{"open", true, open, true},
		{"closing", true, closing, true},
		{"closing, and it has not connected", false, closing, false},
		{"never spoken to", false, idle, false},
		{"lost", true, lost, false},
	} {
		s := onStage(t, 2, nil)
		a, b := s[0], s[1]
		p := b.peers.At(0)
		if row.knows {
			p.meet()
		}
		p.state = row.state
		a.box.head.look.Store(0)
		rings := a.rings(t)
		p.rouse()
		if row.wakes {
			rings++
		}
		require.Equal(t, rings, a.rings(t), row.name)
		require.EqualValues(t, map[bool]int{false: 0, true: 1}[row.wakes], a.box.head.look.Load(), row.name)
		p.state = max(idle, row.state)
	}
	// The same by the way that leads there: the receiver has closed its side before the first frame
	// came.
	s := onStage(t, 2, nil)
	a, b := s[0], s[1]
	b.peers.At(0).closes(t)
	require.Equal(t, closing, b.peers.At(0).state)
	require.Nil(t, b.peers.At(0).box)
	n := a.fills(t, 1)
	require.True(t, b.looks(t))
	require.Equal(t, sends(0, 1, n-1), b.hears())
	require.Zero(t, a.rings(t))
}

// A peer ends once. What it was told to send ends with the reason that was first.
func TestLose(t *testing.T) {
	first, later := errors.New("first"), errors.New("later")
	for name, row := range map[string]struct {
		before func(t *testing.T, a *actor, p *peer)
		err    error
		told   string
		want   string
	}{
		"lost":                    {nil, first, "1 is lost: shm: rank 1: first", "shm: rank 1: first"},
		"it has said goodbye":     {nil, nil, "", "fabric: endpoint is closed: by rank 1"},
		"it could not be reached": {func(_ *testing.T, _ *actor, p *peer) { p.err = later }, first, "1 is lost: later", "later"},
		"this side closes":        {func(t *testing.T, _ *actor, p *peer) { p.closes(t) }, first, "", "shm: rank 1: first"},
		"both close":              {func(t *testing.T, _ *actor, p *peer) { p.closes(t) }, nil, "", "fabric: endpoint is closed: by rank 1"},
		"it was lost before":      {func(_ *testing.T, a *actor, p *peer) { p.lose(later); a.hears() }, first, "", "shm: rank 1: later"},
	} {
		t.Run(name, func(t *testing.T) {
			s := onStage(t, 3, func(c *Config) { c.SingleCopy = -1 })
			a := s[0]
			meet(t, s)
			p := a.peers.At(1)
			a.fills(t, 1)
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
				require.Equal(t, []string{row.told}, a.hears())
			}
			for _, err := range []error{row.err, later, nil} {
				p.lose(err)
				require.Empty(t, a.hears())
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
			require.Zero(t, a.pending.Load(), "nothing waited for it")
			got.is(t, map[uint64]string{8: row.want, 9: "first"})
		})
	}
}

// A peer whose ring is damaged ends, also if nothing else is there.
func TestDamagedRingEndsThePeer(t *testing.T) {
	s := onStage(t, 2, nil)
	a := s[0]
	meet(t, s)
	in := a.peers.At(1).in
	off := in.pos & (ringSize - 1)
	in.word(off).Store(5)
	require.True(t, a.looks(t))
	require.Equal(t, []string{fmt.Sprintf("1 is lost: shm: rank 1: a frame that begins with 0x5 at %d", off)}, a.hears())
	require.True(t, a.peers.At(1).gone.Load())
	require.False(t, a.looks(t))
}

// A side that closes says so to each peer that it knows, or that knows it, when there is room;
// others are left alone.
func TestPeerCloses(t *testing.T) {
	closedBy := func(t *testing.T, a, b *actor, last int) {
		// b takes what is there, and a closing frame behind it
		t.Helper()
		for b.looks(t) || a.looks(t) {
		}
		require.Equal(t, sends(0, 1, last), b.hears())
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
		s := onStage(t, 2, nil)
		p := s[0].peers.At(1)
		p.closes(t)
		require.True(t, flushed(p))
		require.Equal(t, closing, p.state)
		require.Nil(t, p.box)
		require.Equal(t, fabric.ErrClosed, s[0].Send(1, word(1)))
	})
	t.Run("it has sent", func(t *testing.T) {
		s := onStage(t, 2, nil)
		require.NoError(t, s[1].Send(0, word(1)))
		p := s[0].peers.At(1)
		p.closes(t)
		require.True(t, flushed(p))
		require.NotNil(t, p.box)
		closedBy(t, s[0], s[1], 0)
	})
	t.Run("known", func(t *testing.T) {
		s := onStage(t, 2, nil)
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
		s := onStage(t, 2, nil)
		n := s[0].fills(t, 1)
		p := s[0].peers.At(1)
		p.closes(t)
		require.False(t, flushed(p))
		require.Equal(t, fabric.ErrClosed, s[0].Send(1, word(1)))
		require.Len(t, p.queue, 2)
		closedBy(t, s[0], s[1], n)
		require.True(t, flushed(p))
	})
}

// What nobody takes ends when the endpoint closes, and what is expected, too.
func TestCloseEndsAll(t *testing.T) {
	for _, single := range []int{1, -1} {
		hold := make(chan struct{})
		waitsFor(t, 0)
		eps := openAll(t, 2, func(c *Config) { c.SingleCopy = single })
		t.Cleanup(func() { close(hold) })
		bind(eps[0], mute{})
		bindHeld(eps[1], mute{}, hold)
		a := &actor{Endpoint: eps[0]}
		a.fills(t, 1)
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

// An endpoint that has no handler yet waits for nothing when it closes.
func TestCloseUnbound(t *testing.T) {
	for _, single := range []int{1, -1} {
		e := openAll(t, 2, func(c *Config) { c.SingleCopy = single })[0]
		waitsFor(t, time.Hour)
		a := &actor{Endpoint: e}
		var sent ends
		a.Push(1, 1, make([]byte, 100), sent.done(1))
		a.fills(t, 1)
		a.Push(1, 2, make([]byte, 100), sent.done(2))
		require.NoError(t, a.Close())
		closed := "fabric: endpoint is closed"
		if single == 1 {
			sent.is(t, map[uint64]string{1: closed, 2: closed})
		} else {
			sent.is(t, map[uint64]string{1: "", 2: closed})
		}
		waitsFor(t, 5*time.Second)
	}
}

// A rank of which there is news that it is lost is lost at once, whatever lies in its ring, and
// only if it is another rank of a run that goes on.
func TestDrop(t *testing.T) {
	gone := errors.New("gone")
	s := onStage(t, 3, nil)
	a, b := s[0], s[1]
	meet(t, s)
	rings := a.rings(t)
	for _, rank := range []int{-1, 0, 3, 4} {
		a.Drop(rank, gone)
	}
	require.Empty(t, a.hears())
	require.Equal(t, rings, a.rings(t))
	require.NoError(t, a.Send(0, word(9)))
	a.hears()
	require.NoError(t, b.Send(0, word(1)))
	require.NoError(t, s[2].Send(0, word(2)))
	a.box.head.look.Store(3) // somebody looks, or has died between the change and the byte
	rings = a.rings(t)
	a.Drop(1, gone)
	require.Equal(t, rings+1, a.rings(t))
	a.box.head.look.Store(1)
	require.Equal(t, []string{"1 is lost: shm: rank 1: gone"}, a.hears())
	require.True(t, a.looks(t))
	require.Equal(t, []string{"2 sends 2"}, a.hears(), "nothing of it is taken")
	require.Len(t, a.active, 1)
	require.NoError(t, b.Send(0, word(1)))
	require.False(t, a.looks(t))
	// One that comes only now is not taken either.
	s = onStage(t, 2, nil)
	s[0].Drop(1, gone)
	require.NoError(t, s[1].Send(0, word(1)))
	s[0].hears()
	require.True(t, s[0].looks(t))
	require.Empty(t, s[0].hears())
	require.True(t, s[0].peers.At(1).joined)
	require.Empty(t, s[0].active)
	require.False(t, s[0].looks(t))
	// Where there is no handler yet, and behind the end.
	e, err := New(Config{Size: 2})
	require.NoError(t, err)
	e.Drop(1, gone)
	require.Equal(t, idle, e.peers.At(1).state)
	h := &actor{Endpoint: e}
	bind(e, h)
	bind(e, mute{})
	require.Same(t, h, e.Local(0), "the first handler stays")
	require.Nil(t, e.Local(1))
	require.NoError(t, e.Close())
	e.peers.At(1).state = open
	e.Drop(1, gone)
	require.Empty(t, h.hears())
}

// A peer whose process has ended is buried when its last frame is taken, however many there are.
func TestBury(t *testing.T) {
	s := onStage(t, 4, nil)
	a := s[0]
	meet(t, s)
	for _, from := range []int{1, 2} {
		for k := range 2*batch + 5 {
			require.NoError(t, s[from].Send(0, word(uint64(k)+1)))
		}
	}
	p := a.peers.At(1)
	rings := a.rings(t)
	p.unreachable()
	p.unreachable()
	require.EqualValues(t, 1, a.deaths.Load(), "once")
	require.Equal(t, rings+1, a.rings(t), "its sleeper wakes once")
	var want []string
	for _, part := range [][2]int{{1, batch}, {batch + 1, 2 * batch}, {2*batch + 1, 2*batch + 5}} {
		require.True(t, a.Poll(false))
		a.isAwake = false
		want = append(sends(1, part[0], part[1]), sends(2, part[0], part[1])...)
		if part[1] == 2*batch+5 {
			want = append(want, fmt.Sprintf("1 is lost: shm: rank 1: its process %d has ended", p.pid))
		}
		require.Equal(t, want, a.hears(), "those of one rank do not keep off those of another")
	}
	require.Zero(t, a.deaths.Load())
	require.True(t, p.buried)
	a.box.head.look.Store(1)
	require.False(t, a.looks(t))
	require.Len(t, a.active, 2)
	// One that was dropped is buried at once.
	require.NoError(t, s[3].Send(0, word(1)))
	a.peers.At(3).gone.Store(true)
	a.peers.At(3).unreachable()
	require.True(t, a.looks(t))
	require.Zero(t, a.deaths.Load())
	require.Equal(t, []string{fmt.Sprintf("3 is lost: shm: rank 3: its process %d has ended", p.pid)}, a.hears())
	// One that has never sent, and one that has come unseen.
	s = onStage(t, 3, nil)
	a = s[0]
	a.peers.At(2).meet()
	a.peers.At(1).unreachable()
	require.NoError(t, s[2].Send(0, word(1)))
	a.joins = a.box.head.joins.Load()
	a.peers.At(2).unreachable()
	a.bury()
	require.Len(t, a.hears(), 1)
	require.EqualValues(t, 1, a.deaths.Load())
	require.True(t, a.Poll(false))
	a.leave()
	require.Equal(t, []string{"2 sends 1", fmt.Sprintf("2 is lost: shm: rank 2: its process %d has ended", a.peers.At(2).pid)}, a.hears())
}

// A process whose end cannot be awaited has ended before, or is not watched.
func TestWatchProcess(t *testing.T) {
	e := onStage(t, 2, nil)[0]
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

// What reach finds in an address: the memory of the process can be copied if what it says of itself
// is there.
func TestReach(t *testing.T) {
	s := onStage(t, 2, nil)
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
		require.Equal(t, row.copy, p.copy)
		p.box.unmap()
		p.rope.close()
	}
	a.cfg.Lookup = func(int) (string, error) { return "", wrong }
	require.EqualError(t, a.Send(1, word(1)), "shm: rank 1: no such address")
	a.cfg.Lookup = nil // it is asked once
	require.EqualError(t, a.Send(1, word(1)), "shm: rank 1: no such address")
	_, err := a.Shared(1)
	require.EqualError(t, err, "shm: rank 1: no such address")
	require.True(t, a.peers.At(1).dead.Load())
	require.True(t, a.looks(t))
	require.Equal(t, []string{"1 is lost: shm: rank 1: no such address"}, a.hears())
}

// Ranks have the same memory in common, and each has its own.
func TestShared(t *testing.T) {
	s := onStage(t, 3, nil)
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
