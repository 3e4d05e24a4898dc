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

// When the set is asked: always where somebody is not read directly, or a socket is full; else now
// and then, and that whether or not there is something to read.
func TestWhenTheSetIsAsked(t *testing.T) {
	l := newLinked(t, 2)
	y := l.eyes
	eventually(t, l.g.Enter)
	defer l.g.Leave()
	asked := func(looks int) (n int) {
		for range looks {
			if y.Poll(false); y.unasked == 0 {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, asked(5), "nobody is read directly")
	y.talkers[1] = l.sock(1)
	require.Equal(t, 5, asked(5), "one of two is")
	y.talkers[0] = l.sock(2)
	require.Zero(t, asked(askAnyway-1), "both are")
	require.Equal(t, 1, asked(1))
	require.Equal(t, 2, asked(2*askAnyway))
	y.full.Add(1)
	require.Equal(t, 5, asked(5), "one is full")
	y.full.Add(-1)
	y.talkers = [2]*socket{}
	y.listen(l.sock(1))
	require.Equal(t, [2]*socket{l.sock(1)}, y.talkers)
	l.says(2, onWire(kindFrame, frameOf(2, 1)))
	for k := range askAnyway {
		require.Len(t, l.k.frames, k)
		l.says(1, onWire(kindFrame, frameOf(1, 1)))
		require.True(t, y.Poll(false))
	}
	require.Len(t, l.k.frames, askAnyway+1, "one that talks without end does not keep the other one waiting")
	require.False(t, y.Poll(false))
}

// Who is read directly, with two connections and with three.
func TestListenTo(t *testing.T) {
	for _, peers := range []int{2, 3} {
		l := newLinked(t, peers)
		y := l.eyes
		eventually(t, l.g.Enter)
		a, b := l.sock(1), l.sock(2)
		for _, s := range []*socket{a, b} {
			y.listen(s)
			y.setApart(true)
			y.listen(s)
			require.Equal(t, s, y.talkers[0])
		}
		y.streak = 5
		if peers == 2 {
			require.Equal(t, [2]*socket{b, a}, y.talkers)
			require.True(t, a.apart)
			y.listen(a)
			require.Equal(t, [2]*socket{a, b}, y.talkers)
			require.True(t, b.apart)
			require.Equal(t, 5, y.streak)
			y.deaf(a)
			require.Equal(t, [2]*socket{nil, b}, y.talkers)
			y.deaf(a)
			y.listen(b)
			require.Equal(t, [2]*socket{b, nil}, y.talkers)
		} else {
			require.Equal(t, [2]*socket{b, nil}, y.talkers)
			require.False(t, a.apart, "it is in the set again")
			y.listen(a)
			require.Equal(t, [2]*socket{a, nil}, y.talkers)
			require.False(t, b.apart)
			require.Zero(t, y.streak)
		}
		a.setApart(false) // a test has made it deaf
		y.setApart(false)
		l.g.Leave()
	}
}

// Arming is put off where somebody is likely to poll soon, but for a full socket. The eighth time
// in a row, what is read directly leaves the set; it is back before the set is listened to.
func TestArm(t *testing.T) {
	l := newLinked(t, 1)
	y := l.eyes
	eventually(t, l.g.Enter)
	defer l.g.Leave()
	y.listen(l.sock(1))
	require.Equal(t, fabric.Costs{Poll: true, Arm: true}, y.Costs())
	outer := func() string { return members(t, y.outer)[y.inner] }
	require.Equal(t, "once", outer(), "who polls has disarmed")
	for k := range apartAfter {
		require.False(t, isApart(l.sock(1)), k)
		require.Equal(t, fabric.ArmDeferred, y.Arm(true, fabric.LeavingForSoon))
		require.Equal(t, k+1, y.streak)
		require.Equal(t, "once", outer())
	}
	require.True(t, isApart(l.sock(1)))
	y.full.Add(1)
	require.Equal(t, fabric.ArmedFully, y.Arm(true, fabric.LeavingForSoon))
	y.full.Add(-1)
	require.Equal(t, "in once", outer())
	require.False(t, isApart(l.sock(1)))
	require.Zero(t, y.streak)
	for _, why := range []fabric.Leaving{fabric.LeavingInVain, fabric.LeavingFound} {
		require.Equal(t, fabric.ArmedFully, y.Arm(false, why))
		require.Equal(t, "once", outer())
		require.Equal(t, fabric.ArmedFully, y.Arm(true, why))
		require.Equal(t, "in once", outer())
	}
	y.Arm(false, fabric.LeavingInVain)
	// More is to come: the rest of a piece, or room.
	require.False(t, y.Midway())
	y.full.Add(1)
	require.True(t, y.Midway())
	y.full.Add(-1)
	l.says(1, onWire(kindPiece, pieceOf(5, 0, 9))[:headSize+2])
	require.True(t, y.Poll(false))
	require.True(t, y.Midway())
	require.False(t, y.Waits())
}

// The sleeper sleeps in Go's poller where nothing comes, also when something has come before.
func TestSleeperSleeps(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	asleep := func() (n int) {
		buf := make([]byte, 1<<20)
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			first, rest, _ := strings.Cut(g, "\n")
			if strings.Contains(first, "[IO wait") && strings.Contains(rest, "(*eyes).sleeper") {
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

// An endpoint whose looker does not leave is not waited for longer than Linger; what that may use
// stays open.
func TestCloseUnderALooker(t *testing.T) {
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, Linger: time.Millisecond})
	require.NoError(t, err)
	g := bind(e, newCollect())
	near, far := tcpPair(t)
	defer far.Close()
	e.peers.At(1).state = connecting
	eventually(t, g.Enter)
	e.peers.At(1).establish(near)
	require.NoError(t, far.Close())
	// else Close waits for it
	eventually(t, func() bool { e.eyes.Poll(false); return e.eyes.open.Load() == 0 })
	require.EqualError(t, e.Close(), "tcp: somebody still looks at what has come")
	require.EqualError(t, e.Close(), "tcp: somebody still looks at what has come")
	require.False(t, g.Enter())
	require.False(t, e.peers.At(1).sock.closed)
	e.peers.At(1).drop()
	require.NoError(t, unix.Close(e.eyes.inner))
}

// A socket that somebody writes to is closed by the writer, not under it.
func TestDropUnderAWriter(t *testing.T) {
	l := newLinked(t, 1)
	p, s := l.peers.At(1), l.sock(1)
	eventually(t, l.g.Enter)
	s.end(errors.New("it has ended"))
	l.g.Leave()
	p.writing = true
	p.drop()
	require.True(t, s.dead)
	require.False(t, s.closed)
	require.False(t, p.flush(), "it is dead")
	p.mu.Lock()
	require.False(t, p.wroteLocked())
	p.mu.Unlock()
	require.False(t, p.writing)
	require.True(t, s.closed)
	l.peers.At(0).drop() // which has no connection
}

// An endpoint that cannot have what it needs leaves nothing open behind.
func TestNewFails(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	ln, err := net.Listen("tcp", "127.0.0.1:0") // what the first one opens, Go keeps
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
	var fill []int // of the gaps
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
