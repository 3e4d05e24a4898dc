// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/progress"
)

// linked is an endpoint of rank 0 at which nobody looks by itself, and the far ends of its
// connections, which a test writes and reads as a peer would.
type linked struct {
	*Endpoint
	t      *testing.T
	k      *keeper
	fars   []*net.TCPConn // by rank
	unhold func()         // lets the sleeper look
	g      *progress.Engine
	calls  *atomic.Int32 // for the goroutine that polls
}

// spy counts calls for the goroutine that polls.
type spy struct {
	*progress.Engine
	calls *atomic.Int32
}

func (s spy) Call() {
	s.calls.Add(1)
	s.Engine.Call()
}

// newLinked connects rank 0 with so many peers.
func newLinked(t *testing.T, peers int) *linked {
	t.Helper()
	hold := make(chan struct{})
	e, err := New(Config{Size: peers + 1, Secret: testSecret, Lookup: noLookup, Linger: time.Second})
	require.NoError(t, err)
	l := &linked{Endpoint: e, t: t, k: &keeper{}, fars: make([]*net.TCPConn, peers+1), unhold: sync.OnceFunc(func() { close(hold) })}
	by := spy{Engine: progress.New(e.Sources(), progress.Config{Ranks: 1, Hold: hold}), calls: new(atomic.Int32)}
	l.g, l.calls = by.Engine, by.calls
	e.Bind(l.k, by)
	for r := 1; r <= peers; r++ {
		var near net.Conn
		near, l.fars[r] = tcpPair(t)
		e.peers.At(r).state = connecting
		e.peers.At(r).establish(near)
	}
	t.Cleanup(func() {
		for _, c := range l.fars[1:] {
			_ = c.Close()
		}
		l.unhold()
		_ = e.Close()
	})
	return l
}

func tcpPair(t *testing.T) (near net.Conn, far *net.TCPConn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	near, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	c, err := ln.Accept()
	require.NoError(t, err)
	return near, c.(*net.TCPConn)
}

// says has a peer write, and waits until all of it is here, unread.
func (l *linked) says(rank int, b []byte) {
	l.t.Helper()
	fd := l.sock(rank).fd
	before, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	require.NoError(l.t, err)
	_, err = l.fars[rank].Write(b)
	require.NoError(l.t, err)
	eventually(l.t, func() bool {
		n, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
		return err == nil && n == before+len(b)
	})
}

// hears reads so many bytes at a peer.
func (l *linked) hears(rank, n int) []byte {
	l.t.Helper()
	b := make([]byte, n)
	require.NoError(l.t, l.fars[rank].SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(l.fars[rank], b)
	require.NoError(l.t, err)
	return b
}

func (l *linked) sock(rank int) *socket { return l.peers.At(rank).sock }

// fill writes to a socket until it takes no more, and returns what it wrote.
func (l *linked) fill(rank int) (b []byte) {
	require.NoError(l.t, unix.SetsockoptInt(l.sock(rank).fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	require.NoError(l.t, l.fars[rank].SetReadBuffer(4<<10))
	chunk := bytes.Repeat([]byte("f"), 1<<12)
	for still := 0; still < 20; { // the peer's kernel makes room for a while
		n, _ := unix.Write(l.sock(rank).fd, chunk)
		if n > 0 {
			b = append(b, chunk[:n]...)
			still = 0
			continue
		}
		still++
		time.Sleep(time.Millisecond)
	}
	return b
}

// members returns what a set of epoll listens for, by descriptor: "in", "out", "once".
func members(t *testing.T, set int) map[int]string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", set))
	require.NoError(t, err)
	found := map[int]string{}
	for line := range strings.Lines(string(text)) {
		var fd int
		var events uint32
		if n, _ := fmt.Sscanf(line, "tfd: %d events: %x", &fd, &events); n == 2 {
			var list []string
			for i, bit := range []uint32{unix.EPOLLIN, unix.EPOLLOUT, unix.EPOLLONESHOT} {
				if events&bit != 0 {
					list = append(list, []string{"in", "out", "once"}[i])
				}
			}
			found[fd] = strings.Join(list, " ")
		}
	}
	return found
}

// What is written is what the peer reads, whatever way it goes: copied behind its head, gathered,
// or from the queue; and how much was taken is said.
func TestWrites(t *testing.T) {
	l := newLinked(t, 1)
	s := l.sock(1)
	for _, n := range []int{0, 1, directCopy - 1, directCopy, directCopy + 1, 3 * directCopy} {
		f := frameOf(uint64(n), n)
		m, err := s.write(kindPiece, &f)
		require.NoError(t, err)
		require.Equal(t, headSize+n, m)
		require.Equal(t, onWire(kindPiece, f), l.hears(1, m))
		require.Equal(t, n > directCopy, cap(s.gather.parts) > 0, "%d bytes: small frames are copied", n)
	}
	var items []*item
	var want []byte
	for i := range maxGather {
		f := frameOf(uint64(i), i%3)
		it := newItem(kindFrame, &f, 0, nil)
		switch i % 4 {
		case 1:
			it.head = nil // which was written before
		case 2:
			_ = it.cut(new(5))
		}
		items = append(items, it)
	}
	parts := 0
	for _, it := range items {
		for _, b := range [][]byte{it.head, it.data} {
			if len(b) > 0 && parts < 256 {
				want = append(want, b...)
				parts++
			}
		}
	}
	require.Equal(t, 256, parts)
	n, err := s.writeAll(items)
	require.NoError(t, err)
	require.Equal(t, len(want), n, "no more parts than one call takes")
	require.Equal(t, want, l.hears(1, n))
	require.Empty(t, s.gather.parts)
	for _, v := range s.gather.parts[:cap(s.gather.parts)] {
		require.Zero(t, v, "what was written is not kept")
	}
	before := cap(s.gather.parts)
	_, err = s.writeAll(items[:1])
	require.NoError(t, err)
	require.Equal(t, before, cap(s.gather.parts), "its place is")
	for _, row := range []struct {
		n     int
		errno unix.Errno
		err   error
	}{{5, 0, nil}, {0, 0, nil}, {0, unix.EAGAIN, nil}, {0, unix.EINTR, nil}, {0, unix.EPIPE, unix.EPIPE}, {0, unix.ECONNRESET, unix.ECONNRESET}} {
		n, err := written(row.n, row.errno)
		require.Equal(t, row.n, n)
		require.Equal(t, row.err, err)
	}
}

// What a system call refuses, as an error and no bytes.
func TestSystemCallsFail(t *testing.T) {
	var events [1]unix.EpollEvent
	require.Zero(t, epollNow(-1, events[:]))
	b := make([]byte, 1)
	n, errno := recvNow(-1, b)
	require.Zero(t, n)
	require.Equal(t, unix.EBADF, errno)
	n, errno = sendNow(-1, b)
	require.Zero(t, n)
	require.Equal(t, unix.EBADF, errno)
	var g gathering
	g.add(b)
	n, errno = g.sendNow(-1)
	require.Zero(t, n)
	require.Equal(t, unix.EBADF, errno)
	require.Empty(t, g.parts)
	require.Zero(t, g.parts[:1][0])

	l := newLinked(t, 1)
	_, errno = recvNow(l.sock(1).fd, b)
	require.Equal(t, unix.EAGAIN, errno)
	l.fill(1)
	n, errno = sendNow(l.sock(1).fd, b)
	require.Equal(t, unix.EAGAIN, errno)
	require.Zero(t, n)
}

// In which set a socket is, and what for, in each state: full, apart, closed.
func TestSocketInSet(t *testing.T) {
	l := newLinked(t, 1)
	p, s, y := l.peers.At(1), l.sock(1), l.eyes
	wait := func(full bool) {
		p.mu.Lock()
		s.wait(full)
		p.mu.Unlock()
	}
	check := func(step, member string, full int32) {
		t.Helper()
		want := map[int]string{}
		if member != "" {
			want[s.fd] = member
		}
		require.Equal(t, want, members(t, y.inner), step)
		require.Equal(t, full, y.full.Load(), step)
	}
	require.Same(t, s, p.looked.Load())
	require.EqualValues(t, 1, y.open.Load())
	check("open", "in", 0)
	wait(false)
	check("not full", "in", 0)
	wait(true)
	check("full", "in out", 1)
	wait(true)
	check("full, again", "in out", 1)
	s.setApart(true)
	check("full: not apart", "in out", 1)
	require.False(t, s.apart)
	wait(false)
	check("not full any more", "in", 0)
	s.setApart(false)
	check("as before", "in", 0)
	s.setApart(true)
	check("apart", "", 0)
	s.setApart(true)
	require.True(t, s.apart)
	s.setApart(false)
	check("back", "in", 0)
	s.setApart(true)
	wait(true)
	check("apart and full", "in out", 1)
	require.False(t, s.apart)
	wait(false)
	s.over = true
	s.setApart(true)
	check("over", "in", 0)
	s.over = false
	wait(true)

	p.mu.Lock()
	defer p.mu.Unlock()
	old := s.fd
	s.close()
	require.Zero(t, y.full.Load())
	require.Empty(t, members(t, y.inner))
	var pair [2]int // whose descriptor is the old one
	for used := false; !used; {
		var err error
		pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		used = pair[0] == old || pair[1] == old
		require.LessOrEqual(t, pair[0], old, "somebody else has it")
	}
	s.wait(true)
	s.shut(both)
	s.close()
	require.False(t, s.silent())
	p.mu.Unlock()
	s.setApart(true)
	p.mu.Lock()
	require.False(t, s.apart)
	require.Empty(t, members(t, y.inner))
	require.Zero(t, y.full.Load())
	_, err := unix.Write(pair[0], []byte("x"))
	require.NoError(t, err)
	_, err = unix.Write(pair[1], []byte("x"))
	require.NoError(t, err)
	p.looked.Store(nil) // what has come of it is not the endpoint's
	y.open.Add(-1)
	close(p.ended)
}

// One look at a socket reads so much that others have their turn, and no more than is there.
func TestTake(t *testing.T) {
	l := newLinked(t, 1)
	s := l.sock(1)
	require.False(t, s.take())
	s.in.buf = make([]byte, 1<<10) // so that little is much
	f := frameOf(1, len(s.in.buf)-headSize)
	l.says(1, bytes.Repeat(onWire(kindFrame, f), 2*batch))
	for k := range 2 {
		require.True(t, s.take())
		require.Len(t, l.k.frames, (k+1)*batch)
	}
	require.False(t, s.take())
	l.says(1, onWire(kindFrame, f)[:5])
	require.True(t, s.take(), "though no frame is whole")
	require.False(t, s.take())
}

// Each end of a connection: its socket is not looked at any more, transfers end, then the peer is
// lost.
func TestSocketEnds(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(l *linked)
		want string
	}{
		"the end": {func(l *linked) { _ = l.fars[1].CloseWrite() }, "tcp: rank 1: the connection has ended without a closing frame"},
		"a reset": {func(l *linked) { _ = l.fars[1].SetLinger(0); _ = l.fars[1].Close() }, "tcp: rank 1: connection reset by peer"},
		"a wrong frame": {func(l *linked) { l.says(1, make([]byte, headSize)) },
			"tcp: rank 1: a frame of kind 0 with 0 bytes"},
		"the end, having been found mute": {func(l *linked) {
			l.peers.At(1).mute = io.ErrShortWrite
			_ = l.fars[1].CloseWrite()
		}, "short write"},
	} {
		for _, talks := range []bool{false, true} {
			l := newLinked(t, 1)
			p, s, y := l.peers.At(1), l.sock(1), l.eyes
			var events []string
			note := func(what string) {
				select {
				case <-p.ended:
					what += " behind the end"
				default:
				}
				events = append(events, what)
			}
			l.Expect(1, 5, make([]byte, 9), func(err error) { require.EqualError(t, err, row.want); note("half a transfer") })
			l.Expect(1, 6, make([]byte, 9), func(err error) { require.EqualError(t, err, row.want); note("transfer") })
			l.k.lose = func(error) { note("lost") }
			if name != "a wrong frame" {
				l.says(1, onWire(kindPiece, pieceOf(5, 0, 9))[:headSize+2])
			} else {
				events = append(events, "half a transfer")
				require.True(t, l.Forget(1, 5))
			}
			eventually(t, l.g.Enter)
			if talks {
				y.talkers[1] = s
				y.Poll(false)
			}
			row.end(l)
			eventually(t, func() bool { y.Poll(false); return len(events) == 3 })
			require.Equal(t, []string{"half a transfer", "transfer behind the end", "lost behind the end"}, events, name)
			require.EqualError(t, l.k.errs[0], row.want, name)
			require.True(t, s.over)
			require.Empty(t, members(t, y.inner), name)
			require.Zero(t, y.open.Load())
			require.Equal(t, [2]*socket{}, y.talkers, "%s: it is not read any more", name)
			require.False(t, s.take())
			y.listen(s)
			require.Equal(t, [2]*socket{}, y.talkers)
			l.g.Leave()
			require.EqualError(t, l.Send(1, fabric.Frame{}), row.want)
		}
	}
}

// When a peer counts as silent.
func TestUnanswered(t *testing.T) {
	for _, row := range []struct {
		probes         uint8
		unacked, since uint32 // since: ms
		want           bool
	}{
		{0, 0, 0, false}, {1, 0, 0, false}, {2, 0, 0, true}, {3, 0, 0, true},
		{0, 0, 5000, false}, {0, 1, 1999, false}, {0, 1, 2000, false}, {0, 1, 2001, true}, {0, 2, 2001, true}, {1, 0, 2001, false}, {2, 1, 0, true},
	} {
		info := &unix.TCPInfo{Probes: row.probes, Unacked: row.unacked, Last_ack_recv: row.since}
		require.Equal(t, row.want, unanswered(info, 2*time.Second), "%+v", row)
	}
}

// A peer whose machine says nothing any more, not even that it has got something, is not waited
// for.
func TestCloseOfASilentPeer(t *testing.T) {
	t.Parallel()
	near, far := tcpPair(t)
	defer far.Close()
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, Linger: time.Minute, DeadAfter: 4 * time.Second})
	require.NoError(t, err)
	bind(e, newCollect())
	p := e.peers.At(1)
	p.state = connecting
	p.establish(near)
	raw, err := far.SyscallConn()
	require.NoError(t, err)
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // all that comes
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}))
	require.NoError(t, err)
	p.mu.Lock()
	require.False(t, p.sock.silent())
	p.mu.Unlock()
	require.NoError(t, e.Send(1, fabric.Frame{}))
	eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.sock.silent()
	})
	ended := make(chan struct{})
	go func() { _ = e.Close(); close(ended) }()
	eventually(t, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// A connection that is not of TCP, or of an endpoint that does not look, is left to Go's poller.
func TestNewSocket(t *testing.T) {
	l := newLinked(t, 1)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	require.Nil(t, newSocket(l.peers.At(1), a))
	near, far := tcpPair(t)
	defer far.Close()
	require.Nil(t, newSocket(newPeer(lone(Config{}, nil), 1), near))
	_, err := far.Write([]byte("x"))
	require.NoError(t, err)
	_, err = near.Read(make([]byte, 1))
	require.NoError(t, err, "it is still open")
	require.NoError(t, near.Close())
	require.Nil(t, newSocket(l.peers.At(1), near), "it is closed")
}

// Connections beyond the machine have limits to silence, those within have not.
func TestTune(t *testing.T) {
	all, err := addresses("")
	require.NoError(t, err)
	ln, err := net.Listen("tcp", netAddr(all[0].String()))
	require.NoError(t, err)
	defer ln.Close()
	for _, far := range []bool{false, true} {
		if far && all[0].IsLoopback() {
			continue // no other network
		}
		d := net.Dialer{}
		if far {
			// another address than that of the other end
			d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
		}
		c, err := d.DialContext(context.Background(), "tcp", ln.Addr().String())
		if err != nil && far {
			t.Log(err) // not on this system
			continue
		}
		require.NoError(t, err)
		e := &Endpoint{cfg: Config{DeadAfter: 10 * time.Second}}
		e.tune(c)
		raw, err := c.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		silence := 0
		require.NoError(t, raw.Control(func(fd uintptr) { silence, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }))
		require.NoError(t, err)
		require.Equal(t, far, silence == 8000, "%d ms", silence)
		require.NoError(t, c.Close())
	}
	a, b := net.Pipe()
	new(Endpoint).tune(a)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

func netAddr(host string) string { return net.JoinHostPort(host, "0") }
