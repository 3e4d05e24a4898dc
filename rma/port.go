// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"weft/comm"
)

// newPort is collective over c. It serves the other ranks from when it returns there.
func newPort(c *comm.Comm, mem []byte, lock *sync.Mutex) (*port, error) {
	own, err := c.Dup()
	if err != nil {
		return nil, err
	}
	own.Uncounted()
	p := &port{c: own, mem: mem, lock: lock, lanes: make([]*lane, own.Size())}
	p.teller = &teller{}
	p.teller.of.Store(p)
	own.DescribeBy(p.teller.describe)
	for r := range p.lanes {
		if !own.Local(r) {
			p.lanes[r] = &lane{p: p, rank: r, ahead: aheadBundles, in: new(bundle)}
			p.remote++
		}
	}
	for _, l := range p.lanes {
		if l != nil {
			l.listen()
		}
	}
	return p, nil
}

// begin counts a transfer that the fence has to wait for.
func (p *port) begin() {
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
}

// end is the end of what begin has counted.
func (p *port) end(err error) {
	p.mu.Lock()
	p.open--
	p.failed(cause(err))
	p.settle()
}

// failed keeps the first error. The caller holds mu.
func (p *port) failed(err error) { p.err = cmp.Or(p.err, err) }

// ends says that the next fence is that of Free.
func (p *port) ends() {
	p.mu.Lock()
	p.frees = true
	p.mu.Unlock()
}

// flush is the fence of an epoch: done is called when everything of the epoch that concerns memory
// of this rank is over, and no rank will begin anything of this epoch any more.
func (p *port) flush(done func(error)) {
	p.mu.Lock()
	p.done = done
	// the marks: what stands before them has been read from the caller's memory when they are sent
	p.open += p.remote - p.gone
	epoch, kind := p.epoch, p.fenceKind()
	p.mu.Unlock()
	for _, l := range p.lanes {
		if l != nil && !l.gone.Load() {
			l.add(parcel{what: wireMark, op: kind, epoch: epoch})
		}
	}
	p.mu.Lock()
	p.settle()
}

// settle completes the fence at hand if it can be. The caller holds mu; settle lets go of it. Only
// one goroutine is past the first line, so that a fence that completes inside of another one's
// callbacks does not deepen the stack.
func (p *port) settle() {
	if p.moving {
		p.mu.Unlock()
		return
	}
	p.moving = true
	for p.done != nil && p.open == 0 && p.marks == p.remote {
		p.compare()
		done, err := p.done, p.err
		p.done = nil
		p.epoch++
		p.marks = 0
		var held []*lane
		for _, l := range p.lanes {
			if l == nil {
				continue
			}
			if l.marked = false; l.lost {
				p.marks++
			}
			if l.held {
				l.held = false
				held = append(held, l)
			}
		}
		p.mu.Unlock()
		done(err)
		for _, l := range held {
			l.next(l.handle()) // the message that was held
		}
		p.mu.Lock()
	}
	p.moving = false
	p.mu.Unlock()
}

// compare gives up the ranks that have called Fence where this one has called Free, or the reverse.
// The caller holds mu.
func (p *port) compare() {
	for _, l := range p.lanes {
		if mine := p.fenceKind(); l != nil && l.marked && l.fence != mine {
			p.failed(fmt.Errorf("%w: rank %d is in %s where this rank is in %s", comm.ErrMismatch, l.rank, fences[l.fence], fences[mine]))
			l.lost = true
			l.gone.Store(true)
			p.gone++
		}
	}
}

// lane returns the way to a rank, or why nothing goes there any more.
func (p *port) lane(rank int) (*lane, error) {
	l := p.lanes[rank]
	if !l.gone.Load() {
		return l, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return l, p.err
}

// broken ends the run: what a rank sends makes no sense, and nothing more is taken from it.
func (p *port) broken(l *lane, err error) {
	err = fmt.Errorf("%w: it sends %w", ErrProtocol, err)
	p.c.Abort(&Error{Op: "window", Rank: p.c.Rank(), Peer: l.rank, Err: err})
	p.lose(l, err)
}

// close takes the standing receives back. No fence is under way, and no rank will send anything any
// more.
func (p *port) close() {
	p.mu.Lock()
	p.closed = true
	var reqs []*comm.Request
	for _, l := range p.lanes {
		if l != nil && l.req != nil {
			reqs = append(reqs, l.req)
		}
	}
	p.mu.Unlock()
	for _, r := range reqs {
		r.Cancel()
	}
	p.teller.of.Store(nil)
}

// put, get and accumulate start an operation on a region of another process. They do not wait.

func (p *port) put(rank, off int, src comm.Buffer) error {
	l, err := p.lane(rank)
	if err != nil {
		return err
	}
	x := parcel{what: wirePut, buf: src, off: off, n: src.Bytes()}
	if x.n > inlineBytes {
		x.what = wireDirect
		p.begin()
	}
	l.add(x)
	return nil
}

func (p *port) get(rank, off int, dst comm.Buffer) error {
	l, err := p.lane(rank)
	if err != nil {
		return err
	}
	p.begin()
	x := parcel{what: wireGet, off: off, n: dst.Bytes(), tag: l.wish()}
	req := p.c.Irecv(dst, rank, int(x.tag)) // posted before it is asked for
	l.add(x)
	req.OnDone(func(err error) {
		if st := req.Status(); err == nil && st.Bytes != x.n {
			err = fmt.Errorf("%d bytes in answer to a get of %d", st.Bytes, x.n)
			p.broken(l, err)
		}
		p.end(err)
		l.granted()
	})
	return nil
}

func (p *port) accumulate(rank, off int, src comm.Buffer, op comm.Op) error {
	l, err := p.lane(rank)
	if err != nil {
		return err
	}
	x := parcel{what: wireAccumulate, buf: src, off: off, n: src.Bytes(), op: wireOp(op), kind: src.Kind(), unit: src.ElemSize()}
	if x.unit > maxElement {
		return fmt.Errorf("%w: accumulate of elements of %d bytes at a rank of another process; legal are %d", ErrUnsupported, x.unit, maxElement)
	}
	if op == Replace {
		x.kind = comm.Byte // of any kind, and bytes are replaced alike
	}
	l.add(x)
	return nil
}

// lose gives a rank up. The fences of this window fail from now on, and none waits for it.
func (p *port) lose(l *lane, err error) {
	p.mu.Lock()
	if p.closed || l.lost {
		p.mu.Unlock()
		return
	}
	l.lost = true
	if !l.marked {
		p.marks++
	}
	switch err = cause(err); {
	case errors.Is(err, comm.ErrAborted), errors.Is(err, comm.ErrPeerLost), errors.Is(err, comm.ErrRevoked):
		// which name the rank whose fault it is, if it is one's
		p.failed(err)
	default:
		p.failed(fmt.Errorf("rank %d: %w", l.rank, err))
	}
	p.mu.Unlock()
	if errors.Is(err, comm.ErrPeerLost) && !errors.Is(err, comm.ErrAborted) {
		p.c.Revoke() // the run goes on, without this window
	}
	p.mu.Lock()
	p.settle()
}

// note counts a fence where marks are exchanged, in the order of the calls. The marks of a fence
// that some ranks do not call wait for ever; if nobody waits for it, the end of the run finds it.
func (w *Win) note(final bool) {
	m, ok := w.b.(*memory)
	switch {
	case !ok || m.p == nil:
	case final:
		m.p.c.NoteFor(comm.ForFree)
	default:
		m.p.c.NoteFor(comm.ForFence)
	}
}

// disagreed follows the end of a fence. Where that has found that ranks do not agree, every rank's
// does, and they may go on differently.
func (w *Win) disagreed(err error) {
	if m, ok := w.b.(*memory); ok && m.p != nil && errors.Is(err, comm.ErrMismatch) {
		m.p.c.Disagreed(err)
	}
}
