// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync/atomic"

	"weft/internal/fabric"
	"weft/internal/waits"
)

// push is a transfer that is being written, from the user's memory, in pieces of at most peer.piece bytes. Transfers to one peer take turns, piece by
// piece, and frames go before all of them: so what waits behind a transfer of any size is a piece, and what the kernel holds.
type push struct {
	key  uint64
	data []byte
	done func(error)
	end  func(error) // release, as a value

	off int // guarded by peer.mu, or owned by who has it out of peer.bulk: what is before is written, or with an item

	// holders are those who use data: the rest of the transfer is one, each item with a piece of it another. The last to release calls done.
	holders atomic.Int32
	failed  atomic.Pointer[error]
}

func newPush(key uint64, data []byte, done func(error)) *push {
	t := &push{key: key, data: data, done: done}
	t.end = t.release
	t.holders.Store(1)
	return t
}

func (t *push) release(err error) {
	if err != nil {
		t.failed.CompareAndSwap(nil, &err)
	}
	if t.holders.Add(-1) > 0 {
		return
	}
	if e := t.failed.Load(); e != nil {
		t.done(*e)
		return
	}
	t.done(nil)
}

// piece returns the next piece, of at most limit bytes, and whether it is the last one.
func (t *push) piece(limit int) (f fabric.Frame, last bool) {
	next := min(t.off+limit, len(t.data))
	f = fabric.Frame{Head: [fabric.HeadWords]uint64{t.key, uint64(t.off)}, Data: t.data[t.off:next]}
	t.off = next
	return f, next == len(t.data)
}

// push sends a transfer: on the caller's goroutine as long as the socket takes it at once, and the rest by the writer.
func (p *peer) push(key uint64, data []byte, done func(error)) {
	t := newPush(key, data, done)
	for {
		p.mu.Lock()
		switch p.state {
		case lost:
			err := p.err
			p.mu.Unlock()
			t.release(err)
			return
		case closed:
			p.mu.Unlock()
			t.release(fabric.ErrClosed)
			return
		case idle:
			p.state = connecting
			p.e.wg.Go(waits.Service(func() { p.e.dial(p) }))
		}
		if p.mute != nil {
			err := p.mute
			p.mu.Unlock()
			t.release(err)
			return
		}
		if p.state != open || p.sock == nil || p.writing || len(p.queue) > 0 || len(p.bulk) > 0 {
			p.bulk = append(p.bulk, t)
			if !p.writing {
				p.rouse()
			}
			p.mu.Unlock()
			return
		}
		p.writing = true
		p.mu.Unlock()
		f, last := t.piece(p.piece)
		t.holders.Add(1)
		if err := p.writeNow(kindPiece, &f, t.end); err != nil {
			t.release(err) // of the piece
			t.release(err)
			return
		}
		if last {
			t.release(nil)
			return
		}
	}
}

// batchLocked takes what the writer is to write next: all frames that wait, a piece of the transfer whose turn it is and, behind all, the
// closing frame.
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

// dropBulk ends transfers that will not be written.
func dropBulk(bulk []*push, err error) {
	for _, t := range bulk {
		t.release(err)
	}
}
