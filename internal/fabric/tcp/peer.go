// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"fmt"
	"net"

	"weft/internal/fabric"
	"weft/internal/waits"
)

func newPeer(e *Endpoint, rank int) *peer {
	return &peer{e: e, rank: rank, piece: farPiece, opened: make(chan struct{}), wake: make(chan struct{}, 1),
		flushed: make(chan struct{}), ended: make(chan struct{})}
}

// send writes a frame or queues it. done is the caller's to call if there is an error.
func (p *peer) send(kind uint32, f *fabric.Frame, done func(error)) error {
	p.mu.Lock()
	if err := p.readyLocked(); err != nil {
		p.mu.Unlock()
		return err
	}
	if p.state == open && p.sock != nil && !p.writing && len(p.queue) == 0 {
		p.writing = true
		p.mu.Unlock()
		return p.writeNow(kind, f, done)
	}
	p.enqueue(newItem(kind, f, 0, done))
	p.mu.Unlock()
	return nil
}

// readyLocked begins to connect with a peer to which something is to be sent, if nobody has, and
// says why nothing can be sent any more.
// +checklocks:p.mu
func (p *peer) readyLocked() error {
	switch p.state {
	case lost:
		return p.err
	case closed:
		return fabric.ErrClosed
	case idle:
		p.state = connecting
		p.e.wg.Go(waits.Service(func() { p.e.dial(p) }))
	}
	return p.mute
}

// newItem returns what is left of a frame when n bytes of it are written.
func newItem(kind uint32, f *fabric.Frame, n int, done func(error)) *item {
	it := &item{done: done}
	if n < headSize {
		it.head = appendHead(make([]byte, 0, headSize), kind, f)[n:]
	}
	rest := f.Data[max(0, n-headSize):]
	if done == nil {
		rest = append([]byte(nil), rest...)
	}
	it.data = rest
	return it
}

// enqueue appends to the queue. The caller holds mu.
func (p *peer) enqueue(it *item) {
	p.queue = append(p.queue, it)
	p.rouse()
}

// rouse wakes the writer, unless somebody writes, who looks again. The caller holds mu.
func (p *peer) rouse() {
	if p.writing {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// writeNow writes as much of a frame as the socket takes. The caller has set writing.
func (p *peer) writeNow(kind uint32, f *fabric.Frame, done func(error)) error {
	n, err := p.sock.write(kind, f)
	all := err == nil && n == headSize+len(f.Data)
	p.mu.Lock()
	var dropped waste
	if err != nil {
		dropped = p.muteLocked(err)
	}
	switch {
	case all:
	case p.mute != nil:
		err = p.mute
	case p.over:
		err = fabric.ErrClosed
	case p.state == lost:
		err = p.err
	default:
		p.queue = append([]*item{newItem(kind, f, n, done)}, p.queue...)
		p.sock.wait(true)
	}
	more := p.wroteLocked()
	p.mu.Unlock()
	dropped.drop(err)
	if all && done != nil {
		done(nil)
	}
	if more {
		p.flush()
	} else if !all && err == nil {
		p.e.progress.Call() // somebody is to be there when the socket takes more
	}
	return err
}

// wroteLocked ends the writing to the socket. It reports whether the caller is to flush: nobody
// else will do so when the socket takes more. +checklocks:p.mu
func (p *peer) wroteLocked() bool {
	p.writing = false
	if p.sock.dead {
		p.sock.close()
		return false
	}
	return !p.idleLocked() && !p.sock.full && p.mute == nil
}

// waste is what will not be written.
type waste struct {
	queue []*item
	bulk  []*push
}

// wasteLocked takes it out.
// +checklocks:p.mu
func (p *peer) wasteLocked() (w waste) {
	w.queue, w.bulk = p.queue, p.bulk
	p.queue, p.bulk = nil, nil
	return w
}

func (w waste) drop(err error) {
	for _, it := range w.queue {
		if it.done != nil {
			it.done(err)
		}
	}
	for _, t := range w.bulk {
		t.end(err)
	}
}

// muteLocked ends the writing to a socket that takes no more. The connection is not lost before
// everything that is here is read: among it may be the peer's closing frame. +checklocks:p.mu
func (p *peer) muteLocked(err error) waste {
	p.mute = cmp.Or(p.mute, p.broken(err))
	p.sock.wait(false)
	p.sock.shut(both)
	return p.wasteLocked()
}

// flush writes what is queued for a socket, as far as it takes that, and reports whether it did.
// Whoever writes already goes on.
func (p *peer) flush() (did bool) {
	for {
		p.mu.Lock()
		if p.sock == nil || p.writing || p.sock.dead {
			p.mu.Unlock()
			return did
		}
		if p.mute != nil || p.idleLocked() {
			p.sock.wait(false)
			p.mu.Unlock()
			return did
		}
		items := p.batchLocked()
		p.writing = true
		p.mu.Unlock()

		n, err := p.sock.writeAll(items)
		did = did || n > 0
		written := 0
		for written < len(items) && items[written].cut(&n) {
			written++
		}
		rest := items[written:]

		p.mu.Lock()
		var dropped waste
		switch {
		case err != nil:
			p.queue = append(rest, p.queue...)
			dropped = p.muteLocked(err)
			err = p.mute
		case p.over || p.state == lost:
			err = cmp.Or(p.err, fabric.ErrClosed)
			dropped.queue = rest
		case len(rest) > 0:
			p.queue = append(rest, p.queue...)
			p.sock.wait(true)
		}
		more := p.wroteLocked()
		full := p.sock.full
		p.mu.Unlock()

		for _, it := range items[:written] {
			p.wrote(it, nil)
		}
		dropped.drop(err)
		if !more {
			if full {
				p.e.progress.Call()
			}
			return did
		}
	}
}

func (p *peer) wrote(it *item, err error) {
	if it.done != nil {
		it.done(err)
	}
	if it.last {
		close(p.flushed)
	}
}

// cut takes up to n bytes away from an item, and from n, and reports whether nothing is left.
func (it *item) cut(n *int) bool {
	for _, part := range [2]*[]byte{&it.head, &it.data} {
		m := min(*n, len(*part))
		*part = (*part)[m:]
		*n -= m
	}
	return len(it.head)+len(it.data) == 0
}

func (p *peer) broken(err error) error { return fmt.Errorf("tcp: rank %d: %w", p.rank, err) }

// admit returns the verdict on a connection that the peer has made. 0 is none: nothing goes on
// between the two any more, so the peer is not to wait for another connection, which "duplicate"
// would promise.
func (p *peer) admit() byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.state > open:
		return 0
	case p.taken, p.state == open, p.state == connecting && p.e.cfg.Rank < p.rank:
		return duplicate
	}
	p.state = connecting
	p.taken = true
	return accepted
}

// establish makes c the connection.
func (p *peer) establish(c net.Conn) {
	p.mu.Lock()
	if p.state != connecting {
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	p.state = open
	if isNear(c) {
		p.piece = nearPiece
	}
	if p.sock = newSocket(p, c); p.sock == nil {
		p.conn = c // wake has a word for the writer if there is something to be written
		p.e.wg.Go(waits.Service(p.read))
		p.e.wg.Go(waits.Service(p.write))
	} else {
		p.sock.watch()
	}
	close(p.opened)
	p.mu.Unlock()
	p.flush()
}

// write is the writer: it writes what is queued, and may block.
func (p *peer) write() {
	for {
		select {
		case <-p.wake:
		case <-p.ended:
			return
		}
		p.mu.Lock()
		if p.idleLocked() {
			p.mu.Unlock()
			continue
		}
		batch := p.batchLocked()
		p.writing = true
		p.mu.Unlock()

		bufs := make(net.Buffers, 0, 2*len(batch))
		for _, it := range batch {
			bufs = append(bufs, it.head, it.data)
		}
		_, err := bufs.WriteTo(p.conn)
		if err != nil {
			err = p.broken(err)
		}
		for _, it := range batch {
			p.wrote(it, err)
		}
		p.mu.Lock()
		p.writing = false
		if !p.idleLocked() {
			p.rouse()
		}
		p.mu.Unlock()
		if err != nil {
			p.lose(err)
		}
	}
}

// unreachable says that this side's attempt to connect has failed. Where the peer's own connection
// is used, or about to be, that matters to nobody: a peer that closes soon after its frames have
// come leaves the attempt without an answer.
func (p *peer) unreachable(err error) {
	p.loseIf(func() bool { return p.state == connecting && !p.taken }, err)
}

// lose ends everything with the peer. The handler is told, unless the peer has said that it closes,
// or this side has closed.
func (p *peer) lose(err error) { p.loseIf(func() bool { return p.state < closed }, err) }

// loseIf is lose if still says, under mu, that it is to be: the peer is neither lost nor closed
// then.
func (p *peer) loseIf(still func() bool, err error) {
	p.mu.Lock()
	if !still() {
		p.mu.Unlock()
		return
	}
	was := p.state
	p.state, p.err = lost, err
	bye := p.bye
	if bye {
		p.err = fmt.Errorf("%w: by rank %d", fabric.ErrClosed, p.rank)
		err = p.err
	}
	dropped := p.wasteLocked()
	switch {
	case was != open:
		close(p.opened)
	case p.sock != nil:
		p.sock.wait(false)
		p.sock.shut(both)
	default:
		_ = p.conn.Close()
	}
	p.mu.Unlock()
	dropped.drop(err)
	p.e.expected.Lose(p.rank, err)
	if !bye {
		p.e.handler.Lost(p.rank, err)
	}
}

// close ends this side: it writes what is queued and then a closing frame, and waits for the peer's
// end, until expired is closed.
func (p *peer) close(expired <-chan struct{}) {
	p.mu.Lock()
	if p.state == connecting {
		p.mu.Unlock()
		select {
		case <-p.opened:
		case <-expired:
		}
		p.mu.Lock()
	}
	was := p.state
	if was == open && p.sock != nil && p.sock.silent() {
		past := make(chan struct{})
		close(past)
		expired = past // there is nobody to wait for
	}
	if was == open {
		p.closing = true
		p.rouse()
	}
	if was <= open {
		p.state = closed
	}
	p.mu.Unlock()
	if was == open {
		p.flush()
		select {
		case <-p.flushed:
			p.hang(ownSide)
			select {
			case <-p.ended:
			case <-expired:
			}
		case <-p.ended:
		case <-expired:
		}
		p.hang(both)
		<-p.ended
	}
	p.mu.Lock()
	dropped := p.wasteLocked()
	p.over = true
	p.mu.Unlock()
	dropped.drop(fabric.ErrClosed)
}

// hang ends an open connection, or this side of it.
func (p *peer) hang(how int) {
	if p.sock != nil {
		p.mu.Lock()
		p.sock.shut(how)
		p.mu.Unlock()
		return
	}
	if how == both {
		_ = p.conn.Close()
	} else if c, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// What hang ends.
const (
	ownSide = 1 // SHUT_WR
	both    = 2 // SHUT_RDWR
)

// batchLocked takes what the writer is to write next: all frames that wait, a piece of the transfer
// whose turn it is and, behind all, the closing frame. +checklocks:p.mu
func (p *peer) batchLocked() []*item {
	batch := p.queue
	p.queue = nil
	if len(p.bulk) > 0 {
		t := p.bulk[0]
		p.bulk[0] = nil
		p.bulk = p.bulk[1:]
		f, last := t.piece(p.piece)
		if !last {
			t.holders.Add(1)
			p.bulk = append(p.bulk, t)
		} // else the item has what was the rest's
		batch = append(batch, newItem(kindPiece, &f, 0, t.end))
	}
	if p.closing && len(p.bulk) == 0 {
		p.closing = false
		batch = append(batch, &item{head: appendHead(nil, kindClose, &fabric.Frame{}), last: true})
	}
	return batch
}

// idleLocked reports whether there is nothing to be written.
// +checklocks:p.mu
func (p *peer) idleLocked() bool { return len(p.queue) == 0 && len(p.bulk) == 0 && !p.closing }

func newPush(key uint64, data []byte, done func(error)) *push {
	t := &push{key: key, data: data, holders: fabric.Holders{Done: done}}
	t.end = t.holders.Release
	t.holders.Add(1)
	return t
}

// piece returns the next piece, of at most limit bytes, and whether it is the last one.
func (t *push) piece(limit int) (f fabric.Frame, last bool) {
	next := min(t.off+limit, len(t.data))
	f = fabric.Frame{Head: [fabric.HeadWords]uint64{t.key, uint64(t.off)}, Data: t.data[t.off:next]}
	t.off = next
	return f, next == len(t.data)
}

// push sends a transfer: on the caller's goroutine as long as the socket takes it at once, and the
// rest by the writer.
func (p *peer) push(key uint64, data []byte, done func(error)) {
	t := newPush(key, data, done)
	for {
		p.mu.Lock()
		if err := p.readyLocked(); err != nil {
			p.mu.Unlock()
			t.end(err)
			return
		}
		if p.state != open || p.sock == nil || p.writing || len(p.queue) > 0 || len(p.bulk) > 0 {
			p.bulk = append(p.bulk, t)
			p.rouse()
			p.mu.Unlock()
			return
		}
		p.writing = true
		p.mu.Unlock()
		f, last := t.piece(p.piece)
		t.holders.Add(1)
		if err := p.writeNow(kindPiece, &f, t.end); err != nil {
			t.end(err) // of the piece
			t.end(err)
			return
		}
		if last {
			t.end(nil)
			return
		}
	}
}
