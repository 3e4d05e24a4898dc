// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

// inner is polled at each poll if a socket is not direct, or a socket is full. Otherwise it is
// polled at each sixteenth poll, whether the direct sockets have something or not.
func TestWhenInnerIsPolled(t *testing.T) {
	l := newLinked(t, 2)
	pl := l.poller
	eventually(t, l.g.Enter)
	defer l.g.Leave()
	asked := func(polls int) (n int) {
		for range polls {
			if pl.Poll(false); pl.sinceInner == 0 {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, asked(5), "no socket is direct")
	pl.direct[1] = l.sock(1)
	require.Equal(t, 5, asked(5), "one of two is direct")
	pl.direct[0] = l.sock(2)
	require.Zero(t, asked(innerEvery-1), "both are direct")
	require.Equal(t, 1, asked(1))
	require.Equal(t, 2, asked(2*innerEvery))
	pl.full.Add(1)
	require.Equal(t, 5, asked(5), "one is full")
	pl.full.Add(-1)
	pl.direct = [2]*socket{}
	pl.makeDirect(l.sock(1))
	require.Equal(t, [2]*socket{l.sock(1)}, pl.direct)
	l.peerWrites(2, onWire(kindFrame, frameOf(2, 1)))
	for k := range innerEvery {
		require.Len(t, l.k.frames, k)
		l.peerWrites(1, onWire(kindFrame, frameOf(1, 1)))
		require.True(t, pl.Poll(false))
	}
	require.Len(t, l.k.frames, innerEvery+1, "a direct socket that always has something does not keep the other one waiting")
	require.False(t, pl.Poll(false))
}

// Which sockets are direct, of two connections and of three.
func TestMakeDirect(t *testing.T) {
	for _, peers := range []int{2, 3} {
		l := newLinked(t, peers)
		pl := l.poller
		eventually(t, l.g.Enter)
		a, b := l.sock(1), l.sock(2)
		for _, s := range []*socket{a, b} {
			pl.makeDirect(s)
			pl.setDetached(true)
			pl.makeDirect(s)
			require.Equal(t, s, pl.direct[0])
		}
		pl.deferrals = 5
		if peers == 2 {
			require.Equal(t, [2]*socket{b, a}, pl.direct)
			require.True(t, a.detached)
			pl.makeDirect(a)
			require.Equal(t, [2]*socket{a, b}, pl.direct)
			require.True(t, b.detached)
			require.Equal(t, 5, pl.deferrals)
			pl.dropDirect(a)
			require.Equal(t, [2]*socket{nil, b}, pl.direct)
			pl.dropDirect(a)
			pl.makeDirect(b)
			require.Equal(t, [2]*socket{b, nil}, pl.direct)
		} else {
			require.Equal(t, [2]*socket{b, nil}, pl.direct)
			require.False(t, a.detached, "it is in inner again")
			pl.makeDirect(a)
			require.Equal(t, [2]*socket{a, nil}, pl.direct)
			require.False(t, b.detached)
			require.Zero(t, pl.deferrals)
		}
		a.setDetached(false) // the test has removed it from the direct sockets
		pl.setDetached(false)
		l.g.Leave()
	}
}

// Arming is deferred if a goroutine probably polls soon, unless a socket is full. At the eighth
// deferral in a row, the direct sockets are detached. They are in inner again before outer is
// armed.
func TestArm(t *testing.T) {
	l := newLinked(t, 1)
	pl := l.poller
	eventually(t, l.g.Enter)
	defer l.g.Leave()
	pl.makeDirect(l.sock(1))
	require.Equal(t, fabric.Costs{Poll: true, Arm: true}, pl.Costs())
	outer := func() string { return members(t, pl.outer)[pl.inner] }
	require.Equal(t, "once", outer(), "the goroutine that polls has disarmed")
	for k := range detachAfter {
		require.False(t, isDetached(l.sock(1)), k)
		require.Equal(t, fabric.ArmDeferred, pl.Arm(true, fabric.LeavingForSoon))
		require.Equal(t, k+1, pl.deferrals)
		require.Equal(t, "once", outer())
	}
	require.True(t, isDetached(l.sock(1)))
	pl.full.Add(1)
	require.Equal(t, fabric.ArmedFully, pl.Arm(true, fabric.LeavingForSoon))
	pl.full.Add(-1)
	require.Equal(t, "in once", outer())
	require.False(t, isDetached(l.sock(1)))
	require.Zero(t, pl.deferrals)
	for _, why := range []fabric.Leaving{fabric.LeavingInVain, fabric.LeavingFound} {
		require.Equal(t, fabric.ArmedFully, pl.Arm(false, why))
		require.Equal(t, "once", outer())
		require.Equal(t, fabric.ArmedFully, pl.Arm(true, why))
		require.Equal(t, "in once", outer())
	}
	pl.Arm(false, fabric.LeavingInVain)
	// Midway: the rest of a piece will arrive, or room.
	require.False(t, pl.Midway())
	pl.full.Add(1)
	require.True(t, pl.Midway())
	pl.full.Add(-1)
	l.peerWrites(1, onWire(kindPiece, pieceOf(5, 0, 9))[:headSize+2])
	require.True(t, pl.Poll(false))
	require.True(t, pl.Midway())
	require.False(t, pl.Waits())
}

// The doorbell goroutine sleeps in Go's poller while nothing arrives, also after an arrival.
func TestDoorbellGoroutineSleeps(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	asleep := func() (n int) {
		buf := make([]byte, 1<<20)
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			first, rest, _ := strings.Cut(g, "\n")
			if strings.Contains(first, "[IO wait") && strings.Contains(rest, "(*poller).doorbellLoop") {
				n++
			}
		}
		return n
	}
	for k := range uint64(2) {
		eventually(t, func() bool { return asleep() == 2 })
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{k}}))
		eventually(t, func() bool { return cs[1].n.Load() == int64(k+1) })
	}
	eventually(t, func() bool { return asleep() == 2 })
}

// Close waits no longer than Linger for a goroutine that does not stop polling. The sockets that
// this goroutine may use stay open.
func TestCloseUnderAPoller(t *testing.T) {
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, Linger: time.Millisecond})
	require.NoError(t, err)
	g := bind(e, newCollect())
	near, far := tcpPair(t)
	defer far.Close()
	e.peers.At(1).state = connecting
	eventually(t, g.Enter)
	e.peers.At(1).establish(near)
	require.NoError(t, far.Close())
	// otherwise Close waits for the peer
	eventually(t, func() bool { e.poller.Poll(false); return e.poller.open.Load() == 0 })
	require.EqualError(t, e.Close(), "tcp: a goroutine still polls, or handles a frame; its sockets stay open")
	require.EqualError(t, e.Close(), "tcp: a goroutine still polls, or handles a frame; its sockets stay open")
	require.False(t, g.Enter())
	require.False(t, e.peers.At(1).sock.closed)
	e.peers.At(1).drop()
	require.NoError(t, unix.Close(e.poller.inner))
}

// If a goroutine writes to a dropped peer's socket, that goroutine closes the socket.
func TestDropUnderAWriter(t *testing.T) {
	l := newLinked(t, 1)
	p, s := l.peers.At(1), l.sock(1)
	eventually(t, l.g.Enter)
	s.end(errors.New("the end"))
	l.g.Leave()
	p.writing = true
	p.drop()
	require.True(t, s.dead)
	require.False(t, s.closed)
	require.False(t, p.flush(), "the socket is dead")
	p.mu.Lock()
	require.False(t, p.wroteLocked())
	p.mu.Unlock()
	require.False(t, p.writing)
	require.True(t, s.closed)
	l.peers.At(0).drop() // rank 0 itself has no connection
}

// If New fails, it leaves no descriptor open.
func TestNewFails(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	ln, err := net.Listen("tcp", "127.0.0.1:0") // Go keeps descriptors that the first one opens
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	highest := 0
	for _, n := range names {
		fd, err := strconv.Atoi(n.Name())
		require.NoError(t, err)
		highest = max(highest, fd)
	}
	var fill []int // the gaps between open descriptors
	top := 0
	for top <= highest {
		top, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		fill = append(fill, top)
	}
	var errs []error
	for k := range 4 {
		limit := old
		limit.Cur = uint64(top + 1 + k)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		e, err := New(Config{Size: 1, Secret: testSecret})
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		errs = append(errs, err)
		if err == nil {
			require.NoError(t, e.Close())
		}
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.Equal(t, top+1, fd, "%d descriptors are allowed: something is left open", k)
		require.NoError(t, unix.Close(fd))
	}
	for _, fd := range fill {
		require.NoError(t, unix.Close(fd))
	}
	for _, err := range errs[:3] {
		require.ErrorIs(t, err, unix.EMFILE)
		require.ErrorContains(t, err, "tcp: ")
	}
	require.ErrorContains(t, errs[1], "epoll_create")
	require.ErrorContains(t, errs[2], "epoll_create")
	require.NoError(t, errs[3])
}
