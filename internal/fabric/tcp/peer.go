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

// send writes a frame or queues it. If send returns an error, it does not call done.
func (p *peer) send(kind uint32, f *fabric.Frame, done func(error)) error {
	p.mu.Lock()
	if err := p.prepareLocked(); err != nil {
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

// prepareLocked prepares sending to a peer: it begins to connect, if that has not begun. It returns
// the reason if nothing can be sent any more.
// +checklocks:p.mu
func (p *peer) prepareLocked() error {
	switch p.state {
	case lost:
		return p.err
	case closed:
		return fabric.ErrClosed
	case idle:
		p.state = connecting
		p.e.wg.Go(waits.Service(func() { p.e.dial(p) }))
	}
	return p.writeErr
}

// newItem returns the rest of a frame of which n bytes, with the head, are written. The data is
// copied if done is nil.
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
	p.wakeWriter()
}

// wakeWriter wakes the writer, unless a goroutine writes: that one checks the queue again. The
// caller holds mu.
func (p *peer) wakeWriter() {
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
	var dropped unsent
	if err != nil {
		dropped = p.stopWritingLocked(err)
	}
	switch {
	case all:
	case p.writeErr != nil:
		err = p.writeErr
	case p.over:
		err = fabric.ErrClosed
	case p.state == lost:
		err = p.err
	default:
		p.queue = append([]*item{newItem(kind, f, n, done)}, p.queue...)
		p.sock.setFull(true)
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
		p.e.progress.Call() // the goroutine that polls must not leave outer unarmed
	}
	return err
}

// wroteLocked ends the writing to the socket. It reports whether the caller must flush: frames
// wait, and the socket is not full, so no poll will flush.
// +checklocks:p.mu
func (p *peer) wroteLocked() bool {
	p.writing = false
	if p.sock.dead {
		p.sock.close()
		return false
	}
	return !p.idleLocked() && !p.sock.full && p.writeErr == nil
}

// unsent has the frames and transfers that will not be written.
type unsent struct {
	queue []*item
	bulk  []*push
}

// takeUnsentLocked empties the queues.
// +checklocks:p.mu
func (p *peer) takeUnsentLocked() (w unsent) {
	w.queue, w.bulk = p.queue, p.bulk
	p.queue, p.bulk = nil, nil
	return w
}

func (w unsent) drop(err error) {
	for _, it := range w.queue {
		if it.done != nil {
			it.done(err)
		}
	}
	for _, t := range w.bulk {
		t.end(err)
	}
}

// stopWritingLocked ends the writing to a socket, after an error. The connection is not lost before
// all bytes that have arrived are read: the peer's closing frame may be among them.
// +checklocks:p.mu
func (p *peer) stopWritingLocked(err error) unsent {
	p.writeErr = cmp.Or(p.writeErr, p.wrap(err))
	p.sock.setFull(false)
	p.sock.shut(both)
	return p.takeUnsentLocked()
}

// flush writes queued frames and pieces as far as the socket takes them, and reports whether it
// wrote any. If another goroutine is writing, flush leaves the queue to that one.
func (p *peer) flush() (did bool) {
	for {
		p.mu.Lock()
		if p.sock == nil || p.writing || p.sock.dead {
			p.mu.Unlock()
			return did
		}
		if p.writeErr != nil || p.idleLocked() {
			p.sock.setFull(false)
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
		var dropped unsent
		switch {
		case err != nil:
			p.queue = append(rest, p.queue...)
			dropped = p.stopWritingLocked(err)
			err = p.writeErr
		case p.over || p.state == lost:
			err = cmp.Or(p.err, fabric.ErrClosed)
			dropped.queue = rest
		case len(rest) > 0:
			p.queue = append(rest, p.queue...)
			p.sock.setFull(true)
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

// cut removes up to *n bytes from an item, reduces *n by their number, and reports whether the item
// is empty.
func (it *item) cut(n *int) bool {
	for _, part := range [2]*[]byte{&it.head, &it.data} {
		m := min(*n, len(*part))
		*part = (*part)[m:]
		*n -= m
	}
	return len(it.head)+len(it.data) == 0
}

func (p *peer) wrap(err error) error { return fmt.Errorf("tcp: rank %d: %w", p.rank, err) }

// admit returns the verdict on a connection that the peer has made. 0: no verdict is sent, since
// the peer is closed or lost. "duplicate" would make the peer wait for another connection, which
// will not be made.
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
		p.conn = c // p.wake is set if something must be written
		p.e.wg.Go(waits.Service(p.read))
		p.e.wg.Go(waits.Service(p.write))
	} else {
		p.sock.startPolling()
	}
	close(p.opened)
	p.mu.Unlock()
	p.flush()
}

// write is the writer goroutine: it writes the queues, and may block.
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
			err = p.wrap(err)
		}
		for _, it := range batch {
			p.wrote(it, err)
		}
		p.mu.Lock()
		p.writing = false
		if !p.idleLocked() {
			p.wakeWriter()
		}
		p.mu.Unlock()
		if err != nil {
			p.lose(err)
		}
	}
}

// unreachable reports that this rank's attempt to connect has failed. That does not matter if the
// peer's own connection is used, or soon will be: a peer that closes soon after its frames have
// arrived leaves this rank's attempt without an answer.
func (p *peer) unreachable(err error) {
	p.loseIf(func() bool { return p.state == connecting && !p.taken }, err)
}

// lose ends the communication with the peer. It calls Handler.Lost, unless the peer has sent its
// closing frame, or this rank has closed.
func (p *peer) lose(err error) { p.loseIf(func() bool { return p.state < closed }, err) }

// loseIf is lose, if still returns true. still is called with mu held, and returns false if the
// peer is lost or closed.
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
	dropped := p.takeUnsentLocked()
	switch {
	case was != open:
		close(p.opened)
	case p.sock != nil:
		p.sock.setFull(false)
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

// close ends this side of the connection: it writes the queues and then a closing frame. It
// waits for the peer to end its side, until expired is closed.
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
		expired = past // the peer will not answer
	}
	if was == open {
		p.closing = true
		p.wakeWriter()
	}
	if was <= open {
		p.state = closed
	}
	p.mu.Unlock()
	if was == open {
		p.flush()
		select {
		case <-p.flushed:
			p.hangUp(ownSide)
			select {
			case <-p.ended:
			case <-expired:
			}
		case <-p.ended:
		case <-expired:
		}
		p.hangUp(both)
		<-p.ended
	}
	p.mu.Lock()
	dropped := p.takeUnsentLocked()
	p.over = true
	p.mu.Unlock()
	dropped.drop(fabric.ErrClosed)
}

// hangUp ends an open connection, or this side of it.
func (p *peer) hangUp(how int) {
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

// What hangUp ends.
const (
	ownSide = 1 // SHUT_WR
	both    = 2 // SHUT_RDWR
)

// batchLocked takes what must be written next from the queues: all frames, a piece of the transfer
// whose turn it is and, after all transfers, the closing frame.
// +checklocks:p.mu
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
		} // else the item takes over the holder of the rest
		batch = append(batch, newItem(kindPiece, &f, 0, t.end))
	}
	if p.closing && len(p.bulk) == 0 {
		p.closing = false
		batch = append(batch, &item{head: appendHead(nil, kindClose, &fabric.Frame{}), last: true})
	}
	return batch
}

// idleLocked reports whether nothing waits to be written.
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

// push sends a transfer: on the caller's goroutine as long as the socket takes it at once. It
// queues the rest.
func (p *peer) push(key uint64, data []byte, done func(error)) {
	t := newPush(key, data, done)
	for {
		p.mu.Lock()
		if err := p.prepareLocked(); err != nil {
			p.mu.Unlock()
			t.end(err)
			return
		}
		if p.state != open || p.sock == nil || p.writing || len(p.queue) > 0 || len(p.bulk) > 0 {
			p.bulk = append(p.bulk, t)
			p.wakeWriter()
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
