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

// newEndpoint is collective over c. The endpoint of a rank serves the other ranks when newEndpoint
// has returned there.
func newEndpoint(c *comm.Comm, mem []byte, lock *sync.Mutex) (*endpoint, error) {
	own, err := c.Dup()
	if err != nil {
		return nil, err
	}
	own.Uncounted()
	ep := &endpoint{c: own, mem: mem, lock: lock, channels: make([]*channel, own.Size())}
	ep.describer = &describer{}
	ep.describer.ep.Store(ep)
	own.DescribeBy(ep.describer.describe)
	for r := range ep.channels {
		if !own.Local(r) {
			ep.channels[r] = &channel{ep: ep, rank: r, eagerLeft: maxEager, in: new(packet)}
			ep.remote++
		}
	}
	for _, ch := range ep.channels {
		if ch != nil {
			ch.listen()
		}
	}
	return ep, nil
}

// begin counts a transfer that the next fence has to wait for.
func (ep *endpoint) begin() {
	ep.mu.Lock()
	ep.pending++
	ep.mu.Unlock()
}

// end ends a transfer that begin has counted.
func (ep *endpoint) end(err error) {
	ep.mu.Lock()
	ep.pending--
	ep.failed(cause(err))
	ep.settle()
}

// failed keeps the first error. The caller holds mu.
func (ep *endpoint) failed(err error) { ep.err = cmp.Or(ep.err, err) }

// announceFree marks the next fence as that of Free.
func (ep *endpoint) announceFree() {
	ep.mu.Lock()
	ep.freeing = true
	ep.mu.Unlock()
}

// flush closes an epoch. It calls done when all operations of the epoch that use memory of this
// rank are over, and no rank will begin another operation of this epoch.
func (ep *endpoint) flush(done func(error)) {
	ep.mu.Lock()
	ep.done = done
	// The marks. When a mark is sent, all operations before it have been read from the caller's
	// memory.
	ep.pending += ep.remote - ep.detached
	epoch, kind := ep.epoch, ep.fenceKind()
	ep.mu.Unlock()
	for _, ch := range ep.channels {
		if ch != nil && !ch.detached.Load() {
			ch.add(outgoing{what: wireMark, op: kind, epoch: epoch})
		}
	}
	ep.mu.Lock()
	ep.settle()
}

// settle completes the current fence if it can be completed. The caller holds mu; settle unlocks
// it. One goroutine at a time is in the loop, so a fence that completes in the callbacks of another
// fence does not deepen the stack.
func (ep *endpoint) settle() {
	if ep.settling {
		ep.mu.Unlock()
		return
	}
	ep.settling = true
	for ep.done != nil && ep.pending == 0 && ep.marks == ep.remote {
		ep.compare()
		done, err := ep.done, ep.err
		ep.done = nil
		ep.epoch++
		ep.marks = 0
		var held []*channel
		for _, ch := range ep.channels {
			if ch == nil {
				continue
			}
			if ch.marked = false; ch.lost {
				ep.marks++
			}
			if ch.held {
				ch.held = false
				held = append(held, ch)
			}
		}
		ep.mu.Unlock()
		done(err)
		for _, ch := range held {
			ch.resume(ch.handle()) // the message that was held
		}
		ep.mu.Lock()
	}
	ep.settling = false
	ep.mu.Unlock()
}

// compare detaches the ranks that have called Fence where this rank has called Free, or the
// reverse. The caller holds mu.
func (ep *endpoint) compare() {
	for _, ch := range ep.channels {
		if mine := ep.fenceKind(); ch != nil && ch.marked && ch.fence != mine {
			ep.failed(fmt.Errorf("%w: rank %d is in %s where this rank is in %s", comm.ErrMismatch, ch.rank, fenceNames[ch.fence], fenceNames[mine]))
			ch.lost = true
			ch.detached.Store(true)
			ep.detached++
		}
	}
}

// channelTo returns the channel to a rank, or the reason why the rank is detached.
func (ep *endpoint) channelTo(rank int) (*channel, error) {
	ch := ep.channels[rank]
	if !ch.detached.Load() {
		return ch, nil
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ch, ep.err
}

// protocolError ends the run, because a rank has sent a message that breaks the protocol. It
// handles no further message of the rank.
func (ep *endpoint) protocolError(ch *channel, err error) {
	err = fmt.Errorf("%w: the rank sends %w", ErrProtocol, err)
	ep.c.Abort(&Error{Op: "window", Rank: ep.c.Rank(), Peer: ch.rank, Err: err})
	ep.lose(ch, err)
}

// close cancels the standing receives. No fence is in progress, and no rank sends anything any
// more.
func (ep *endpoint) close() {
	ep.mu.Lock()
	ep.closed = true
	var reqs []*comm.Request
	for _, ch := range ep.channels {
		if ch != nil && ch.req != nil {
			reqs = append(reqs, ch.req)
		}
	}
	ep.mu.Unlock()
	for _, r := range reqs {
		r.Cancel()
	}
	ep.describer.ep.Store(nil)
}

// put, get and accumulate start an operation on a region of another process. They do not wait.

func (ep *endpoint) put(rank, off int, src comm.Buffer) error {
	ch, err := ep.channelTo(rank)
	if err != nil {
		return err
	}
	x := outgoing{what: wirePut, buf: src, off: off, n: src.Bytes()}
	if x.n > inlineBytes {
		x.what = wireDirect
		ep.begin()
	}
	ch.add(x)
	return nil
}

func (ep *endpoint) get(rank, off int, dst comm.Buffer) error {
	ch, err := ep.channelTo(rank)
	if err != nil {
		return err
	}
	ep.begin()
	x := outgoing{what: wireGet, off: off, n: dst.Bytes(), tag: ch.answerTag()}
	req := ep.c.Irecv(dst, rank, int(x.tag)) // posted before the get is sent
	ch.add(x)
	req.OnDone(func(err error) {
		if st := req.Status(); err == nil && st.Bytes != x.n {
			err = fmt.Errorf("%d bytes in answer to a get of %d", st.Bytes, x.n)
			ep.protocolError(ch, err)
		}
		ep.end(err)
		ch.answered()
	})
	return nil
}

func (ep *endpoint) accumulate(rank, off int, src comm.Buffer, op comm.Op) error {
	ch, err := ep.channelTo(rank)
	if err != nil {
		return err
	}
	x := outgoing{what: wireAccumulate, buf: src, off: off, n: src.Bytes(), op: wireOp(op), kind: src.Kind(), unit: src.ElemSize()}
	if x.unit > maxElement {
		return fmt.Errorf("%w: accumulate of elements of %d bytes at a rank of another process; legal are %d", ErrUnsupported, x.unit, maxElement)
	}
	if op == Replace {
		x.kind = comm.Byte // Replace knows every kind, and copies bytes
	}
	ch.add(x)
	return nil
}

// lose marks a rank as lost. All fences of this window fail from then on, and none waits for the
// rank.
func (ep *endpoint) lose(ch *channel, err error) {
	ep.mu.Lock()
	if ep.closed || ch.lost {
		ep.mu.Unlock()
		return
	}
	ch.lost = true
	if !ch.marked {
		ep.marks++
	}
	switch err = cause(err); {
	case errors.Is(err, comm.ErrAborted), errors.Is(err, comm.ErrPeerLost), errors.Is(err, comm.ErrRevoked):
		// These errors name the rank that caused them, if a rank did.
		ep.failed(err)
	default:
		ep.failed(fmt.Errorf("rank %d: %w", ch.rank, err))
	}
	ep.mu.Unlock()
	if errors.Is(err, comm.ErrPeerLost) && !errors.Is(err, comm.ErrAborted) {
		ep.c.Revoke() // the run continues without this window
	}
	ep.mu.Lock()
	ep.settle()
}

// countFence counts a fence in the history of the endpoint's communicator, in the order of the
// calls. The marks of a fence that some ranks do not call wait for ever. The comparison of
// histories at the end of the run finds such a fence even if no rank waits for it.
func (w *Win) countFence(final bool) {
	m, ok := w.b.(*memory)
	switch {
	case !ok || m.ep == nil:
	case final:
		m.ep.c.NoteFor(comm.ForFree)
	default:
		m.ep.c.NoteFor(comm.ForFence)
	}
}

// stopCounting follows a fence that has failed. If the fence has found a mismatch, it has done so
// at every rank, and ranks may call different fences from then on.
func (w *Win) stopCounting(err error) {
	if m, ok := w.b.(*memory); ok && m.ep != nil && errors.Is(err, comm.ErrMismatch) {
		m.ep.c.Disagreed(err)
	}
}
