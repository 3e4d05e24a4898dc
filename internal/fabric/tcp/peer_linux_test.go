// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

// tally counts the calls of a push's done, and keeps the last error. done may use the peer at once.
type tally struct {
	n   int
	err error
	p   *peer // done checks that it is not locked; nil: no check
}

func (d *tally) done(err error) {
	d.n++
	d.err = err
	if d.p != nil {
		if !d.p.mu.TryLock() {
			panic("the peer is locked")
		}
		d.p.mu.Unlock()
	}
}

// newItem returns the rest of a frame of which some bytes are written. The data of a frame are
// copied, those of a transfer are not.
func TestNewItem(t *testing.T) {
	f := frameOf(3, 20)
	all := onWire(kindFrame, f)
	for _, n := range []int{0, 1, headSize - 1, headSize, headSize + 1, headSize + 19, headSize + 20} {
		for _, done := range []func(error){nil, func(error) {}} {
			it := newItem(kindFrame, &f, n, done)
			require.True(t, bytes.Equal(all[n:], append(bytes.Clone(it.head), it.data...)), n)
			require.Equal(t, max(0, headSize-n), len(it.head))
			require.Equal(t, done == nil, it.done == nil)
			require.False(t, it.last)
			if len(it.data) > 0 {
				require.Equal(t, done != nil, &it.data[len(it.data)-1] == &f.Data[19], "%d bytes", n)
			}
		}
	}
	for _, row := range []struct{ n, head, data, left int }{
		{0, 4, 6, 0}, {1, 3, 6, 0}, {4, 0, 6, 0}, {5, 0, 5, 0}, {9, 0, 1, 0}, {10, 0, 0, 0}, {11, 0, 0, 1},
	} {
		it := &item{head: make([]byte, 4), data: make([]byte, 6)}
		n := row.n
		require.Equal(t, row.n >= 10, it.cut(&n), "%+v", row)
		require.Equal(t, []int{row.head, row.data, row.left}, []int{len(it.head), len(it.data), n}, "%+v", row)
	}
}

// The pieces of a transfer, and its end: at the last release of its memory, with the first error.
func TestPush(t *testing.T) {
	for _, row := range []struct {
		size, limit int
		want        []int
	}{{1, 4, []int{1}}, {3, 4, []int{3}}, {4, 4, []int{4}}, {5, 4, []int{4, 1}}, {8, 4, []int{4, 4}}, {9, 4, []int{4, 4, 1}}, {0, 4, []int{0}}} {
		data := frameOf(1, row.size).Data
		u := newPush(7, data, nil)
		off := 0
		for i, n := range row.want {
			f, last := u.piece(row.limit)
			require.Equal(t, [fabric.HeadWords]uint64{7, uint64(off)}, f.Head)
			require.Equal(t, data[off:off+n], f.Data)
			require.Equal(t, i == len(row.want)-1, last)
			off += n
		}
	}
	for _, errs := range [][]error{{nil}, {io.EOF}, {nil, nil, nil}, {nil, io.EOF, nil}, {io.EOF, errFails, nil}, {nil, nil, errFails}} {
		var d tally
		u := newPush(7, nil, d.done)
		u.holders.Add(len(errs) - 1)
		var want error
		for i, err := range errs {
			require.Zero(t, d.n)
			[]func(error){u.holders.Release, u.end}[i%2](err)
			if want == nil {
				want = err
			}
		}
		require.Equal(t, 1, d.n)
		require.Equal(t, want, d.err)
	}
}

// The order of writing: frames, then a piece of the transfer whose turn it is; the closing frame
// after everything else.
func TestBatches(t *testing.T) {
	p := newPeer(lone(Config{}, nil), 1)
	p.piece = 4
	var a, b tally
	frame := frameOf(1, 1)
	require.True(t, p.idleLocked())
	p.queue = []*item{newItem(kindFrame, &frame, 0, nil)}
	require.False(t, p.idleLocked())
	p.bulk = []*push{newPush(1, make([]byte, 9), a.done), newPush(2, make([]byte, 4), b.done)}
	p.closing = true
	kept := p.bulk
	var said []string
	for !p.idleLocked() {
		for _, it := range p.batchLocked() {
			kind, n, err := parseHead(it.head, 2, &frame)
			require.NoError(t, err)
			require.Equal(t, kind == kindClose, it.last)
			if kind == kindPiece {
				require.Equal(t, n, len(it.data))
				said = append(said, string(rune('a'-1+frame.Head[0]))+string(rune('0'+n)))
			} else {
				said = append(said, map[uint32]string{kindFrame: "frame", kindClose: "close"}[kind])
			}
			if it.done != nil {
				it.done(nil)
			}
		}
		said = append(said, "|")
	}
	require.Equal(t, []string{"frame", "a4", "|", "b4", "|", "a4", "|", "a1", "close", "|"}, said)
	require.Equal(t, []tally{{n: 1}, {n: 1}}, []tally{a, b})
	require.Nil(t, kept[0], "written items are not kept")
	require.Empty(t, p.queue)
	p.bulk = []*push{newPush(1, make([]byte, 9), a.done)}
	require.False(t, p.idleLocked())
	p.bulk, p.closing = nil, true
	require.False(t, p.idleLocked())
	require.Len(t, p.batchLocked(), 1)
	require.False(t, p.closing)
	require.Empty(t, p.batchLocked())
}

// Sends and pushes in each state of a peer are written, queued, or refused with the reason. done of
// a push is called once.
func TestSendByState(t *testing.T) {
	l := newLinked(t, 1)
	p := l.peers.At(1)
	frame := frameOf(1, 3)
	why := errors.New("the reason")
	for _, row := range []struct {
		name   string
		change func()
		err    error
		queued bool
		wakes  bool
	}{
		{"open", func() {}, nil, false, false},
		{"another writes", func() { p.writing = true }, nil, true, false},
		{"a frame waits", func() { p.queue = []*item{newItem(kindFrame, &frame, 0, nil)} }, nil, true, true},
		{"connecting", func() { p.state = connecting }, nil, true, true},
		{"write failed", func() { p.writeErr = why }, why, false, false},
		{"closed", func() { p.state = closed }, fabric.ErrClosed, false, false},
		{"lost", func() { p.state, p.err = lost, why }, why, false, false},
	} {
		for _, pushes := range []bool{false, true} {
			row.change()
			queued, bulk := len(p.queue), len(p.bulk)
			d := tally{p: p}
			var err error
			if pushes {
				l.Push(1, 5, frame.Data, d.done)
				if err = d.err; row.queued {
					require.Zero(t, d.n, row.name)
				} else {
					require.Equal(t, 1, d.n, row.name)
				}
			} else {
				err = l.Send(1, frame)
			}
			require.Equal(t, row.err, err, row.name)
			more := len(p.queue) - queued + len(p.bulk) - bulk
			require.Equal(t, row.queued, more == 1, row.name)
			require.Equal(t, row.wakes, len(p.wake) > 0, row.name)
			if row.err == nil && !row.queued {
				sent := frame
				sent.Target = 1
				want := onWire(kindFrame, sent)
				if pushes {
					want = onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{5}, Data: frame.Data})
				}
				require.Equal(t, want, l.peerReads(1, len(want)), row.name)
				require.False(t, p.writing)
			}
			if row.name == "a frame waits" && pushes {
				l.Push(1, 6, frame.Data, d.done)
				require.Len(t, p.bulk, 2, "after the other one")
			}
			p.state, p.queue, p.bulk, p.writeErr, p.writing, p.err = open, nil, nil, nil, false, nil
			select {
			case <-p.wake:
			default:
			}
		}
	}
	d := tally{p: p}
	p.bulk = []*push{newPush(4, frame.Data, d.done)}
	l.Push(1, 5, frame.Data, d.done)
	require.Len(t, p.bulk, 2, "a transfer waits for its turn")
	require.NoError(t, l.Send(1, frame), "a frame goes before transfers")
	frame.Target = 1
	require.Equal(t, onWire(kindFrame, frame), l.peerReads(1, headSize+3))
	require.Empty(t, p.bulk, "and takes them along")
	require.Equal(t, tally{n: 2, p: p}, d)
	require.Equal(t, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{4}, Data: frame.Data}), l.peerReads(1, headSize+3))
	require.Equal(t, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{5}, Data: frame.Data}), l.peerReads(1, headSize+3))
	require.False(t, p.flush())
}

// If a socket takes no more, the rest waits in its order, frames first. The poller is called, and
// writes everything when there is room.
func TestFullSocket(t *testing.T) {
	for _, pushes := range []bool{false, true} {
		l := newLinked(t, 1)
		p, s, pl := l.peers.At(1), l.sock(1), l.poller
		eventually(t, l.g.Enter)
		filled := l.fill(1)
		d := tally{p: p}
		first, second := frameOf(1, 2*directCopy), frameOf(2, 3)
		first.Target, second.Target = 1, 1
		require.Zero(t, l.calls.Load())
		want := filled
		if pushes {
			p.piece = 1000
			l.Push(1, 1, first.Data, d.done)
			require.NoError(t, l.Send(1, second))
			want = append(want, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{1}, Data: first.Data[:1000]})...)
			want = append(want, onWire(kindFrame, second)...)
			want = append(want, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{1, 1000}, Data: first.Data[1000:2000]})...)
			want = append(want, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{1, 2000}, Data: first.Data[2000:]})...)
		} else {
			require.NoError(t, l.Send(1, first))
			require.NoError(t, l.Send(1, second))
			want = append(append(want, onWire(kindFrame, first)...), onWire(kindFrame, second)...)
			clear(first.Data) // the sender may use it again
			clear(second.Data)
		}
		require.Positive(t, l.calls.Load(), "a goroutine must poll when it takes more")
		require.True(t, s.full)
		require.Equal(t, "in out", members(t, pl.inner)[s.fd])
		require.NotEmpty(t, p.queue)
		require.Zero(t, d.n)

		read := make(chan []byte, 1)
		go func() { read <- l.peerReads(1, len(want)) }()
		eventually(t, func() bool {
			pl.Poll(false)
			p.mu.Lock()
			defer p.mu.Unlock()
			return !s.full
		})
		require.Equal(t, want, <-read)
		require.Equal(t, "in", members(t, pl.inner)[s.fd])
		require.True(t, p.idleLocked())
		if pushes {
			require.Equal(t, tally{n: 1, p: p}, d)
		}
		l.g.Leave()
	}
}

// A socket takes nothing, and meanwhile the connection's writing has failed, or the peer is lost or
// closed. The writer ends what waits, with the reason.
func TestWriterFindsAnEnd(t *testing.T) {
	why := errors.New("the reason")
	for _, row := range []struct {
		name   string
		change func(p *peer)
		want   error
	}{
		{"write failed", func(p *peer) { p.writeErr = why }, why},
		{"over", func(p *peer) { p.over = true }, fabric.ErrClosed},
		{"lost", func(p *peer) { p.state, p.err = lost, why }, why},
	} {
		l := newLinked(t, 1)
		p := l.peers.At(1)
		l.fill(1)
		f := frameOf(1, 10)
		row.change(p)
		p.writing = true
		require.ErrorIs(t, p.writeNow(kindFrame, &f, nil), row.want, row.name)
		require.False(t, p.writing)
		require.False(t, p.sock.full)
		if row.name != "write failed" { // then nothing is flushed
			d := tally{p: p}
			p.queue = []*item{newItem(kindPiece, &f, 0, d.done), newItem(kindFrame, &f, 0, nil)}
			require.False(t, p.flush(), row.name)
			require.Equal(t, 1, d.n, row.name)
			require.ErrorIs(t, d.err, row.want)
			require.Empty(t, p.queue)
			require.False(t, p.writing)
			require.False(t, p.sock.full)
		}
		p.state, p.writeErr, p.over = open, nil, false
		_ = l.far[1].Close()
	}
}

// After a failed write, everything that waits ends, once, and no write is tried again. Bytes that
// have arrived are still read before the peer is lost.
func TestWriteFails(t *testing.T) {
	for _, how := range []string{"flush", "send", "push"} {
		l := newLinked(t, 1)
		p, s := l.peers.At(1), l.sock(1)
		l.peerWrites(1, onWire(kindFrame, frameOf(9, 3)))
		// like a connection that the kernel has given up
		require.NoError(t, unix.Shutdown(s.fd, unix.SHUT_WR))
		d, e, g := tally{p: p}, tally{p: p}, tally{p: p}
		f := frameOf(1, 3)
		p.queue = []*item{newItem(kindPiece, &f, 0, d.done), newItem(kindFrame, &f, 0, nil)}
		p.bulk = []*push{newPush(1, f.Data, e.done), newPush(2, f.Data, g.done)}
		p.mu.Lock()
		s.setFull(true) // the socket was full before
		p.mu.Unlock()
		ends := []*tally{&d, &e, &g}
		switch how {
		case "flush":
			require.False(t, p.flush())
		case "send":
			p.writing = true
			require.EqualError(t, p.writeNow(kindFrame, &f, nil), "tcp: rank 1: broken pipe")
		case "push":
			p.queue, p.bulk, p.piece = nil, nil, 2 // more than one piece
			l.Push(1, 9, f.Data, d.done)
			ends = ends[:1]
		}
		for i, d := range ends {
			require.Equal(t, 1, d.n, i)
			require.EqualError(t, d.err, "tcp: rank 1: broken pipe", i)
		}
		require.False(t, p.writing)
		require.True(t, p.idleLocked())
		require.False(t, s.full)
		require.EqualError(t, l.Send(1, f), "tcp: rank 1: broken pipe")
		require.Equal(t, open, p.state)
		p.mu.Lock()
		p.stopWritingLocked(io.EOF)
		p.mu.Unlock()
		require.EqualError(t, p.writeErr, "tcp: rank 1: broken pipe", "the first error stays")
		p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		s.full = true
		l.poller.full.Add(1)
		require.False(t, p.flush())
		require.False(t, s.full)
		p.queue = nil
		_, err := l.far[1].Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		eventually(t, l.g.Enter)
		eventually(t, func() bool { l.poller.Poll(false); return len(l.k.errs) == 1 })
		l.g.Leave()
		require.Len(t, l.k.frames, 1)
		require.EqualError(t, l.k.errs[0], "tcp: rank 1: broken pipe")
		late := tally{p: p}
		l.Push(1, 1, f.Data, late.done)
		require.EqualError(t, late.err, "tcp: rank 1: broken pipe")
	}
}

// After a write, the writer must flush if something waits that the socket may take.
func TestWroteLocked(t *testing.T) {
	f := frameOf(1, 3)
	for _, row := range []struct {
		waits, full, failed, want bool
	}{{false, false, false, false}, {true, false, false, true}, {true, true, false, false}, {true, false, true, false}} {
		l := newLinked(t, 1)
		p := l.peers.At(1)
		p.writing = true
		if row.waits {
			p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		}
		if row.failed {
			p.writeErr = io.EOF
		}
		p.mu.Lock()
		p.sock.full = row.full
		require.Equal(t, row.want, p.wroteLocked(), "%+v", row)
		p.sock.full, p.writeErr, p.queue = false, nil, nil
		p.mu.Unlock()
		require.False(t, p.writing)
		p.writing = true
		p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		require.NoError(t, p.writeNow(kindFrame, &f, nil), "the frame that waits is written as well")
		want := onWire(kindFrame, f)
		require.Equal(t, append(want, want...), l.peerReads(1, 2*len(want)))
		p.writing = true
		require.False(t, p.flush(), "another goroutine writes")
		p.writing = false
		require.True(t, len(p.queue) == 0)
		_ = l.far[1].Close()
	}
}

// The loss of a peer in each state. Handler.Lost is called once, unless the peer has sent its
// closing frame or this side has closed. Everything that waits ends before that call.
func TestLose(t *testing.T) {
	why := errors.New("the reason")
	for _, row := range []struct {
		state state
		bye   bool
		want  error // of what waits; nil: nothing happens
		lost  bool  // Handler.Lost is called
	}{
		{idle, false, why, true}, {connecting, false, why, true}, {open, false, why, true}, {open, true, fabric.ErrClosed, false}, {closed, false, nil, false}, {lost, false, nil, false},
	} {
		k := &keeper{}
		p := newPeer(lone(Config{Size: 2}, k), 1)
		conn := &reads{}
		p.state, p.bye = row.state, row.bye
		if row.state >= open {
			p.conn = conn
		}
		queued, bulk, expected := tally{p: p}, tally{p: p}, tally{p: p}
		f := frameOf(1, 3)
		p.queue = []*item{newItem(kindPiece, &f, 0, queued.done), newItem(kindFrame, &f, 0, nil)}
		p.bulk = []*push{newPush(1, f.Data, bulk.done)}
		p.e.expected.Add(1, 1, make([]byte, 3), expected.done)
		k.lose = func(error) { require.Equal(t, 3, queued.n+bulk.n+expected.n, "Handler.Lost is called last") }
		p.lose(why)
		p.lose(io.EOF)
		for _, d := range []tally{queued, bulk, expected} {
			if row.want == nil {
				require.Zero(t, d.n, "%+v", row)
				continue
			}
			require.Equal(t, 1, d.n, "%+v", row)
			require.ErrorIs(t, d.err, row.want, "%+v", row)
		}
		require.Equal(t, row.lost, len(k.errs) == 1, "%+v", row)
		if row.want == nil {
			require.Equal(t, row.state, p.state)
			continue
		}
		require.Equal(t, lost, p.state)
		require.ErrorIs(t, p.err, row.want)
		select {
		case <-p.opened:
			require.NotEqual(t, open, row.state)
		default:
			require.Equal(t, open, row.state)
		}
		require.Equal(t, row.state == open, conn.closed == 1)
		late := tally{p: p}
		p.push(1, f.Data, late.done)
		require.ErrorIs(t, late.err, row.want)
		require.Equal(t, 1, late.n)
		if row.bye {
			require.EqualError(t, p.err, "fabric: endpoint is closed: by rank 1")
			require.Equal(t, p.err, queued.err)
		}
	}
	for _, row := range []struct {
		state state
		taken bool
		want  bool
	}{{idle, false, false}, {connecting, false, true}, {connecting, true, false}, {open, false, false}, {closed, false, false}, {lost, false, false}} {
		k := &keeper{}
		p := newPeer(lone(Config{Size: 2}, k), 1)
		p.state, p.taken = row.state, row.taken
		p.unreachable(why)
		require.Equal(t, row.want, len(k.errs) == 1, "%+v", row)
		if row.want {
			require.Equal(t, lost, p.state)
		} else {
			require.Equal(t, row.state, p.state)
		}
	}
}

// If a peer is lost while its socket is full, the socket is not full any more, and the connection
// ends.
func TestLoseAFullSocket(t *testing.T) {
	l := newLinked(t, 1)
	p, s := l.peers.At(1), l.sock(1)
	p.mu.Lock()
	s.setFull(true)
	p.mu.Unlock()
	require.EqualValues(t, 1, l.poller.full.Load())
	l.Drop(1, errFails)
	require.False(t, s.full)
	require.Zero(t, l.poller.full.Load())
	require.Equal(t, "in", members(t, l.poller.inner)[s.fd])
	_, err := l.far[1].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, l.k.errs[0], "tcp: rank 1: it fails")
}

// far is a connection whose addresses are of two machines.
type far struct{ reads }

func (*far) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }
func (*far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)} }

// A connection becomes a peer's only if the peer waits for one. Its addresses decide the size of
// pieces.
func TestEstablish(t *testing.T) {
	for _, s := range []state{idle, open, closed, lost} {
		p := newPeer(lone(Config{}, nil), 1)
		p.state = s
		conn := &reads{}
		p.establish(conn)
		require.Equal(t, 1, conn.closed, s)
		require.Equal(t, s, p.state)
		require.Nil(t, p.conn)
	}
	k := &keeper{}
	p := newPeer(lone(Config{}, k), 1)
	p.state = connecting
	p.establish(&far{reads{script: []readStep{{err: io.EOF}}}})
	p.e.wg.Wait()
	require.Equal(t, farPiece, p.piece)
	require.Len(t, k.errs, 1)
	l := newLinked(t, 1)
	require.Equal(t, nearPiece, l.peers.At(1).piece)
	<-l.peers.At(1).opened
	require.Equal(t, open, l.peers.At(1).state)
}

// Frames and transfers that wait for the connection are written when it is established.
func TestEstablishFlushes(t *testing.T) {
	l := newLinked(t, 1)
	near, far := tcpPair(t)
	defer far.Close()
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, Linger: time.Millisecond})
	require.NoError(t, err)
	bind(e, newCollect())
	p := e.peers.At(1)
	p.state = connecting
	f := frameOf(1, 5)
	require.NoError(t, p.send(kindFrame, &f, nil))
	var d tally
	p.push(3, f.Data, d.done)
	p.establish(near)
	l.far[0] = far
	want := append(onWire(kindFrame, f), onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{3}, Data: f.Data})...)
	require.Equal(t, want, l.peerReads(0, len(want)))
	require.Equal(t, tally{n: 1}, d)
	_ = far.Close()
	_ = e.Close()
}

// A rank closes: the peer reads what was queued, a closing frame, and then the end. Meanwhile the
// peer may still write, and its frames are delivered.
func TestCloseStepByStep(t *testing.T) {
	for name, row := range map[string]struct {
		peer func(l *linked) // what the peer does after the closing frame
		want int             // number of frames delivered
	}{
		"the peer closes": {func(l *linked) {
			_, err := l.far[1].Read(make([]byte, 1))
			require.ErrorIs(l.t, err, io.EOF)
			_, err = l.far[1].Write(append(onWire(kindFrame, frameOf(1, 3)), appendHead(nil, kindClose, &fabric.Frame{})...))
			require.NoError(l.t, err)
			_ = l.far[1].Close()
		}, 1},
		"the peer resets the connection": {func(l *linked) { _ = l.far[1].SetLinger(0); _ = l.far[1].Close() }, 0},
	} {
		l := newLinked(t, 1)
		p := l.peers.At(1)
		l.cfg.Linger = time.Minute
		f := frameOf(2, 10)
		p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		ended := make(chan error, 1)
		go func() { ended <- l.Close() }()
		l.unhold() // for the doorbell goroutine to end
		want := append(onWire(kindFrame, f), appendHead(nil, kindClose, &fabric.Frame{})...)
		require.Equal(t, want, l.peerReads(1, len(want)), name)
		row.peer(l)
		eventually(t, func() bool {
			l.g.Poll()
			return len(ended) == 1
		})
		require.NoError(t, <-ended)
		require.Len(t, l.k.frames, row.want, name)
		require.Empty(t, l.k.errs)
		require.True(t, p.over)
		require.ErrorIs(t, l.Send(1, f), fabric.ErrClosed)
	}
}
