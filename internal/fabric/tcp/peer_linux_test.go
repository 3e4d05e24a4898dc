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

// tally counts how often what was pushed ended, and keeps the last error. Whoever is told may use
// the peer at once.
type tally struct {
	n   int
	err error
	p   *peer // nil: that is not looked at
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

// What is left of a frame when so many bytes of it are written; a frame's data are copied, a
// transfer's are not.
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

// The pieces of a transfer, and when it ends: when the last who uses its memory lets go, with the
// first error.
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

// What the writer is to write next: frames, then a piece of the transfer whose turn it is; the
// closing frame behind all.
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
	require.Nil(t, kept[0], "what is written is not kept")
	require.Empty(t, p.queue)
	p.bulk = []*push{newPush(1, make([]byte, 9), a.done)}
	require.False(t, p.idleLocked())
	p.bulk, p.closing = nil, true
	require.False(t, p.idleLocked())
	require.Len(t, p.batchLocked(), 1)
	require.False(t, p.closing)
	require.Empty(t, p.batchLocked())
}

// Sends and pushes in each state of a peer: written, queued, or refused with the reason, and then
// whoever pushed is told once.
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
		roused bool
	}{
		{"open", func() {}, nil, false, false},
		{"somebody writes", func() { p.writing = true }, nil, true, false},
		{"a frame waits", func() { p.queue = []*item{newItem(kindFrame, &frame, 0, nil)} }, nil, true, true},
		{"connecting", func() { p.state = connecting }, nil, true, true},
		{"mute", func() { p.mute = why }, why, false, false},
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
			require.Equal(t, row.roused, len(p.wake) > 0, row.name)
			if row.err == nil && !row.queued {
				sent := frame
				sent.Target = 1
				want := onWire(kindFrame, sent)
				if pushes {
					want = onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{5}, Data: frame.Data})
				}
				require.Equal(t, want, l.hears(1, len(want)), row.name)
				require.False(t, p.writing)
			}
			if row.name == "a frame waits" && pushes {
				l.Push(1, 6, frame.Data, d.done)
				require.Len(t, p.bulk, 2, "behind the other one")
			}
			p.state, p.queue, p.bulk, p.mute, p.writing, p.err = open, nil, nil, nil, false, nil
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
	require.Equal(t, onWire(kindFrame, frame), l.hears(1, headSize+3))
	require.Empty(t, p.bulk, "and takes them along")
	require.Equal(t, tally{n: 2, p: p}, d)
	require.Equal(t, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{4}, Data: frame.Data}), l.hears(1, headSize+3))
	require.Equal(t, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{5}, Data: frame.Data}), l.hears(1, headSize+3))
	require.False(t, p.flush())
}

// A socket that takes no more: what is left waits in its order, frames first, whoever looks is
// called, and all goes out when there is room.
func TestFullSocket(t *testing.T) {
	for _, pushes := range []bool{false, true} {
		l := newLinked(t, 1)
		p, s, y := l.peers.At(1), l.sock(1), l.eyes
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
			clear(first.Data) // which the sender may use again
			clear(second.Data)
		}
		require.Positive(t, l.calls.Load(), "somebody is to be there when it takes more")
		require.True(t, s.full)
		require.Equal(t, "in out", members(t, y.inner)[s.fd])
		require.NotEmpty(t, p.queue)
		require.Zero(t, d.n)

		heard := make(chan []byte, 1)
		go func() { heard <- l.hears(1, len(want)) }()
		eventually(t, func() bool {
			y.Poll(false)
			p.mu.Lock()
			defer p.mu.Unlock()
			return !s.full
		})
		require.Equal(t, want, <-heard)
		require.Equal(t, "in", members(t, y.inner)[s.fd])
		require.True(t, p.idleLocked())
		if pushes {
			require.Equal(t, tally{n: 1, p: p}, d)
		}
		l.g.Leave()
	}
}

// What a writer finds when it comes back from a socket that took nothing: the peer is mute, lost,
// or closed for, meanwhile; what waits ends with the reason.
func TestWriterComesBack(t *testing.T) {
	why := errors.New("the reason")
	for _, row := range []struct {
		name   string
		change func(p *peer)
		want   error
	}{
		{"mute", func(p *peer) { p.mute = why }, why},
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
		if row.name != "mute" { // then nothing is flushed
			d := tally{p: p}
			p.queue = []*item{newItem(kindPiece, &f, 0, d.done), newItem(kindFrame, &f, 0, nil)}
			require.False(t, p.flush(), row.name)
			require.Equal(t, 1, d.n, row.name)
			require.ErrorIs(t, d.err, row.want)
			require.Empty(t, p.queue)
			require.False(t, p.writing)
			require.False(t, p.sock.full)
		}
		p.state, p.mute, p.over = open, nil, false
		_ = l.fars[1].Close()
	}
}

// A socket that takes nothing for good: all that waits is told, once, and nothing is tried again;
// what has come is still read before the peer is lost.
func TestMute(t *testing.T) {
	for _, how := range []string{"flush", "send", "push"} {
		l := newLinked(t, 1)
		p, s := l.peers.At(1), l.sock(1)
		l.says(1, onWire(kindFrame, frameOf(9, 3)))
		// as a connection that the kernel has given up
		require.NoError(t, unix.Shutdown(s.fd, unix.SHUT_WR))
		d, e, g := tally{p: p}, tally{p: p}, tally{p: p}
		f := frameOf(1, 3)
		p.queue = []*item{newItem(kindPiece, &f, 0, d.done), newItem(kindFrame, &f, 0, nil)}
		p.bulk = []*push{newPush(1, f.Data, e.done), newPush(2, f.Data, g.done)}
		p.mu.Lock()
		s.wait(true) // it has been full, too
		p.mu.Unlock()
		ends := []*tally{&d, &e, &g}
		switch how {
		case "flush":
			require.False(t, p.flush())
		case "send":
			p.writing = true
			require.EqualError(t, p.writeNow(kindFrame, &f, nil), "tcp: rank 1: broken pipe")
		case "push":
			p.queue, p.bulk, p.piece = nil, nil, 2 // not all of it in one piece
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
		p.muteLocked(io.EOF)
		p.mu.Unlock()
		require.EqualError(t, p.mute, "tcp: rank 1: broken pipe", "the first one stays")
		p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		s.full = true
		l.eyes.full.Add(1)
		require.False(t, p.flush())
		require.False(t, s.full)
		p.queue = nil
		_, err := l.fars[1].Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		eventually(t, l.g.Enter)
		eventually(t, func() bool { l.eyes.Poll(false); return len(l.k.errs) == 1 })
		l.g.Leave()
		require.Len(t, l.k.frames, 1)
		require.EqualError(t, l.k.errs[0], "tcp: rank 1: broken pipe")
		late := tally{p: p}
		l.Push(1, 1, f.Data, late.done)
		require.EqualError(t, late.err, "tcp: rank 1: broken pipe")
	}
}

// When whoever has written is to flush: where something waits that the socket may take.
func TestWroteLocked(t *testing.T) {
	f := frameOf(1, 3)
	for _, row := range []struct {
		waits, full, mute, want bool
	}{{false, false, false, false}, {true, false, false, true}, {true, true, false, false}, {true, false, true, false}} {
		l := newLinked(t, 1)
		p := l.peers.At(1)
		p.writing = true
		if row.waits {
			p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		}
		if row.mute {
			p.mute = io.EOF
		}
		p.mu.Lock()
		p.sock.full = row.full
		require.Equal(t, row.want, p.wroteLocked(), "%+v", row)
		p.sock.full, p.mute, p.queue = false, nil, nil
		p.mu.Unlock()
		require.False(t, p.writing)
		p.writing = true
		p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		require.NoError(t, p.writeNow(kindFrame, &f, nil), "and what waits behind it is written")
		want := onWire(kindFrame, f)
		require.Equal(t, append(want, want...), l.hears(1, 2*len(want)))
		p.writing = true
		require.False(t, p.flush(), "somebody writes")
		p.writing = false
		require.True(t, len(p.queue) == 0)
		_ = l.fars[1].Close()
	}
}

// How a peer is lost in each state: told to the handler unless the peer has said goodbye or this
// side has closed, once; all that waits ends before that.
func TestLose(t *testing.T) {
	why := errors.New("the reason")
	for _, row := range []struct {
		state state
		bye   bool
		want  error // of what waits; nil: nothing happens
		told  bool
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
		k.lose = func(error) { require.Equal(t, 3, queued.n+bulk.n+expected.n, "the handler hears of it last") }
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
		require.Equal(t, row.told, len(k.errs) == 1, "%+v", row)
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

// A peer that is lost while its socket is full is not waited for, and its connection ends.
func TestLoseAFullSocket(t *testing.T) {
	l := newLinked(t, 1)
	p, s := l.peers.At(1), l.sock(1)
	p.mu.Lock()
	s.wait(true)
	p.mu.Unlock()
	require.EqualValues(t, 1, l.eyes.full.Load())
	l.Drop(1, errFails)
	require.False(t, s.full)
	require.Zero(t, l.eyes.full.Load())
	require.Equal(t, "in", members(t, l.eyes.inner)[s.fd])
	_, err := l.fars[1].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, l.k.errs[0], "tcp: rank 1: it fails")
}

// far is a connection that leaves the machine, as far as its addresses say.
type far struct{ reads }

func (*far) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }
func (*far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)} }

// A connection becomes a peer's only if that waits for one; what it is like decides how large
// pieces are.
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

// What waited for the connection is written when it comes.
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
	l.fars[0] = far
	want := append(onWire(kindFrame, f), onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{3}, Data: f.Data})...)
	require.Equal(t, want, l.hears(0, len(want)))
	require.Equal(t, tally{n: 1}, d)
	_ = far.Close()
	_ = e.Close()
}

// A rank closes: the peer reads what was queued, a closing frame, and then the end, while it may
// still write itself; what it writes is delivered.
func TestCloseStepByStep(t *testing.T) {
	for name, row := range map[string]struct {
		peer func(l *linked) // behind the closing frame
		want int             // frames delivered
	}{
		"the peer closes": {func(l *linked) {
			_, err := l.fars[1].Read(make([]byte, 1))
			require.ErrorIs(l.t, err, io.EOF)
			_, err = l.fars[1].Write(append(onWire(kindFrame, frameOf(1, 3)), appendHead(nil, kindClose, &fabric.Frame{})...))
			require.NoError(l.t, err)
			_ = l.fars[1].Close()
		}, 1},
		"the peer breaks off": {func(l *linked) { _ = l.fars[1].SetLinger(0); _ = l.fars[1].Close() }, 0},
	} {
		l := newLinked(t, 1)
		p := l.peers.At(1)
		l.cfg.Linger = time.Minute
		f := frameOf(2, 10)
		p.queue = []*item{newItem(kindFrame, &f, 0, nil)}
		ended := make(chan error, 1)
		go func() { ended <- l.Close() }()
		l.unhold() // for the sleeper to end
		want := append(onWire(kindFrame, f), appendHead(nil, kindClose, &fabric.Frame{})...)
		require.Equal(t, want, l.hears(1, len(want)), name)
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
