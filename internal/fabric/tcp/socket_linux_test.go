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

// linked is an endpoint of rank 0 that only the test polls, and the far ends of its connections,
// which the test writes and reads as a peer would.
type linked struct {
	*Endpoint
	t      *testing.T
	k      *keeper
	far    []*net.TCPConn // by rank
	unhold func()         // lets the doorbell goroutine poll
	g      *progress.Engine
	calls  *atomic.Int32 // number of calls of Progress.Call
}

// spy is an engine that counts the calls of Call.
type spy struct {
	*progress.Engine
	calls *atomic.Int32
}

func (s spy) Call() {
	s.calls.Add(1)
	s.Engine.Call()
}

// newLinked connects rank 0 with a number of peers.
func newLinked(t *testing.T, peers int) *linked {
	t.Helper()
	hold := make(chan struct{})
	e, err := New(Config{Size: peers + 1, Secret: testSecret, Lookup: noLookup, Linger: time.Second})
	require.NoError(t, err)
	l := &linked{Endpoint: e, t: t, k: &keeper{}, far: make([]*net.TCPConn, peers+1), unhold: sync.OnceFunc(func() { close(hold) })}
	by := spy{Engine: progress.New(e.Sources(), progress.Config{Ranks: 1, Hold: hold}), calls: new(atomic.Int32)}
	l.g, l.calls = by.Engine, by.calls
	e.Bind(l.k, by)
	for r := 1; r <= peers; r++ {
		var near net.Conn
		near, l.far[r] = tcpPair(t)
		e.peers.At(r).state = connecting
		e.peers.At(r).establish(near)
	}
	t.Cleanup(func() {
		for _, c := range l.far[1:] {
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

// peerWrites has a peer write, and waits until all bytes have arrived, unread.
func (l *linked) peerWrites(rank int, b []byte) {
	l.t.Helper()
	fd := l.sock(rank).fd
	before, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	require.NoError(l.t, err)
	_, err = l.far[rank].Write(b)
	require.NoError(l.t, err)
	eventually(l.t, func() bool {
		n, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
		return err == nil && n == before+len(b)
	})
}

// peerReads reads n bytes at a peer.
func (l *linked) peerReads(rank, n int) []byte {
	l.t.Helper()
	b := make([]byte, n)
	require.NoError(l.t, l.far[rank].SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(l.far[rank], b)
	require.NoError(l.t, err)
	return b
}

func (l *linked) sock(rank int) *socket { return l.peers.At(rank).sock }

// fill writes to a socket until it takes no more, and returns the bytes.
func (l *linked) fill(rank int) (b []byte) {
	require.NoError(l.t, unix.SetsockoptInt(l.sock(rank).fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	require.NoError(l.t, l.far[rank].SetReadBuffer(4<<10))
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

// members returns the events for which an epoll set is registered, by descriptor: "in", "out",
// "once".
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

// The peer reads what was written, whether data is copied after its head, gathered, or written from
// the queue. The writes return the number of bytes that the socket took.
func TestWrites(t *testing.T) {
	l := newLinked(t, 1)
	s := l.sock(1)
	for _, n := range []int{0, 1, directCopy - 1, directCopy, directCopy + 1, 3 * directCopy} {
		f := frameOf(uint64(n), n)
		m, err := s.write(kindPiece, &f)
		require.NoError(t, err)
		require.Equal(t, headSize+n, m)
		require.Equal(t, onWire(kindPiece, f), l.peerReads(1, m))
		require.Equal(t, n > directCopy, cap(s.gather.parts) > 0, "%d bytes: small frames are copied", n)
	}
	var items []*item
	var want []byte
	for i := range maxGather {
		f := frameOf(uint64(i), i%3)
		it := newItem(kindFrame, &f, 0, nil)
		switch i % 4 {
		case 1:
			it.head = nil // as if written before
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
	require.Equal(t, len(want), n, "at most as many parts as one call takes")
	require.Equal(t, want, l.peerReads(1, n))
	require.Empty(t, s.gather.parts)
	for _, v := range s.gather.parts[:cap(s.gather.parts)] {
		require.Zero(t, v, "written parts are not kept")
	}
	before := cap(s.gather.parts)
	_, err = s.writeAll(items[:1])
	require.NoError(t, err)
	require.Equal(t, before, cap(s.gather.parts), "the memory of the list is reused")
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

// A system call that fails returns an error and no bytes.
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

// Whether a socket is in inner, and for which events, in each state: full, detached, closed.
func TestSocketInSet(t *testing.T) {
	l := newLinked(t, 1)
	p, s, pl := l.peers.At(1), l.sock(1), l.poller
	wait := func(full bool) {
		p.mu.Lock()
		s.setFull(full)
		p.mu.Unlock()
	}
	check := func(step, member string, full int32) {
		t.Helper()
		want := map[int]string{}
		if member != "" {
			want[s.fd] = member
		}
		require.Equal(t, want, members(t, pl.inner), step)
		require.Equal(t, full, pl.full.Load(), step)
	}
	require.Same(t, s, p.polled.Load())
	require.EqualValues(t, 1, pl.open.Load())
	check("open", "in", 0)
	wait(false)
	check("not full", "in", 0)
	wait(true)
	check("full", "in out", 1)
	wait(true)
	check("full, again", "in out", 1)
	s.setDetached(true)
	check("full: not detached", "in out", 1)
	require.False(t, s.detached)
	wait(false)
	check("not full any more", "in", 0)
	s.setDetached(false)
	check("as before", "in", 0)
	s.setDetached(true)
	check("detached", "", 0)
	s.setDetached(true)
	require.True(t, s.detached)
	s.setDetached(false)
	check("back", "in", 0)
	s.setDetached(true)
	wait(true)
	check("detached and full", "in out", 1)
	require.False(t, s.detached)
	wait(false)
	s.over = true
	s.setDetached(true)
	check("over", "in", 0)
	s.over = false
	wait(true)

	p.mu.Lock()
	defer p.mu.Unlock()
	old := s.fd
	s.close()
	require.Zero(t, pl.full.Load())
	require.Empty(t, members(t, pl.inner))
	var pair [2]int // one of the two gets the old descriptor
	for used := false; !used; {
		var err error
		pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		used = pair[0] == old || pair[1] == old
		require.LessOrEqual(t, pair[0], old, "something else has it")
	}
	s.setFull(true)
	s.shut(both)
	s.close()
	require.False(t, s.silent())
	p.mu.Unlock()
	s.setDetached(true)
	p.mu.Lock()
	require.False(t, s.detached)
	require.Empty(t, members(t, pl.inner))
	require.Zero(t, pl.full.Load())
	_, err := unix.Write(pair[0], []byte("x"))
	require.NoError(t, err)
	_, err = unix.Write(pair[1], []byte("x"))
	require.NoError(t, err)
	p.polled.Store(nil) // the descriptor is not the endpoint's any more
	pl.open.Add(-1)
	close(p.ended)
}

// One call of take reads a limited number of times, so that other sockets are read too, and no more
// than is there.
func TestTake(t *testing.T) {
	l := newLinked(t, 1)
	s := l.sock(1)
	require.False(t, s.take())
	s.in.buf = make([]byte, 1<<10) // so that few bytes need many reads
	f := frameOf(1, len(s.in.buf)-headSize)
	l.peerWrites(1, bytes.Repeat(onWire(kindFrame, f), 2*batch))
	for k := range 2 {
		require.True(t, s.take())
		require.Len(t, l.k.frames, (k+1)*batch)
	}
	require.False(t, s.take())
	l.peerWrites(1, onWire(kindFrame, f)[:5])
	require.True(t, s.take(), "bytes, though no whole frame")
	require.False(t, s.take())
}

// Each end of a connection: the socket is not polled any more, transfers end, then the peer is
// lost.
func TestSocketEnds(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(l *linked)
		want string
	}{
		"the end": {func(l *linked) { _ = l.far[1].CloseWrite() }, "tcp: rank 1: the connection has ended without a closing frame"},
		"a reset": {func(l *linked) { _ = l.far[1].SetLinger(0); _ = l.far[1].Close() }, "tcp: rank 1: connection reset by peer"},
		"a wrong frame": {func(l *linked) { l.peerWrites(1, make([]byte, headSize)) },
			"tcp: rank 1: a frame of kind 0 with 0 bytes"},
		"the end after a failed write": {func(l *linked) {
			l.peers.At(1).writeErr = io.ErrShortWrite
			_ = l.far[1].CloseWrite()
		}, "short write"},
	} {
		for _, direct := range []bool{false, true} {
			l := newLinked(t, 1)
			p, s, pl := l.peers.At(1), l.sock(1), l.poller
			var events []string
			note := func(what string) {
				select {
				case <-p.ended:
					what += " after the end"
				default:
				}
				events = append(events, what)
			}
			l.Expect(1, 5, make([]byte, 9), func(err error) { require.EqualError(t, err, row.want); note("half a transfer") })
			l.Expect(1, 6, make([]byte, 9), func(err error) { require.EqualError(t, err, row.want); note("transfer") })
			l.k.lose = func(error) { note("lost") }
			if name != "a wrong frame" {
				l.peerWrites(1, onWire(kindPiece, pieceOf(5, 0, 9))[:headSize+2])
			} else {
				events = append(events, "half a transfer")
				require.True(t, l.Forget(1, 5))
			}
			eventually(t, l.g.Enter)
			if direct {
				pl.direct[1] = s
				pl.Poll(false)
			}
			row.end(l)
			eventually(t, func() bool { pl.Poll(false); return len(events) == 3 })
			require.Equal(t, []string{"half a transfer", "transfer after the end", "lost after the end"}, events, name)
			require.EqualError(t, l.k.errs[0], row.want, name)
			require.True(t, s.over)
			require.Empty(t, members(t, pl.inner), name)
			require.Zero(t, pl.open.Load())
			require.Equal(t, [2]*socket{}, pl.direct, "%s: it is not read any more", name)
			require.False(t, s.take())
			pl.makeDirect(s)
			require.Equal(t, [2]*socket{}, pl.direct)
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

// Close does not wait for a peer whose machine sends nothing any more, not even acknowledgements.
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
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // drops every packet
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

// A connection that is not TCP, or of an endpoint without a poller, is left to Go's poller.
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
	require.NoError(t, err, "near is still open")
	require.NoError(t, near.Close())
	require.Nil(t, newSocket(l.peers.At(1), near), "near is closed")
}

// Connections beyond the machine have a time limit for silence; those within have none.
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
