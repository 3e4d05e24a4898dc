// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"errors"
	"fmt"

	"weft/comm"
)

// Limits of a lane. A target has no more than 2*aheadBundles bundles of a lane in memory that it
// did not ask for: those of two epochs, since nobody is further ahead than that.
const (
	aheadBundles = 8  // per epoch, without a rendezvous
	depth        = 16 // parcels under way, ahead or not
)

// parcel is an operation to be packed or, in outbox, something to be sent.
type parcel struct {
	what    wireKind
	op      uint8
	kind    comm.Kind
	unit    int         // element size
	buf     comm.Buffer // payload
	off, n  int
	at      int // of an accumulate: bytes that are packed already
	tag     uint32
	epoch   uint64 // of a mark
	sealed  *bundle
	synchro bool // of a sealed bundle: by rendezvous
	marks   bool // of a sealed bundle: it ends an epoch
}

// add takes an operation on.
func (l *lane) add(x parcel) {
	l.mu.Lock()
	if !l.pack(&x) {
		l.backlog = append(l.backlog, x)
	}
	l.ship()
}

// wish returns the tag for an answer to a get. They are odd; those of direct puts are even, and 0
// is for bundles.
func (l *lane) wish() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tags++
	return l.tags<<1&comm.TagUB | 1
}

// granted is the answer to a get. It sends what was asked for meanwhile: the answers set the pace.
func (l *lane) granted() {
	l.mu.Lock()
	l.gets--
	if l.filling != nil {
		l.seal(false)
	}
	l.ship()
}

// pack puts an operation into bundles. It returns false if not all of it could be. The caller holds
// mu.
func (l *lane) pack(x *parcel) bool {
	r := record{what: x.what, op: x.op, kind: x.kind, tag: x.tag, off: uint64(x.off), n: uint64(x.n)}
	payload := 0
	if x.what == wirePut {
		payload = x.n
	}
	if x.what != wireAccumulate && !l.make(payload) {
		return false
	}
	switch x.what {
	case wirePut:
		x.buf.CopyToBytes(l.filling.add(r, x.n), 0)
	case wireAccumulate:
		for x.at < x.n {
			if !l.make(min(x.n-x.at, maxElement/x.unit*x.unit)) {
				return false
			}
			n := min(x.n-x.at, l.filling.room()/x.unit*x.unit)
			r.off, r.n = uint64(x.off+x.at), uint64(n)
			x.buf.CopyToBytes(l.filling.add(r, n), x.at)
			x.at += n
		}
	case wireGet:
		l.filling.add(r, 0)
		if l.gets++; l.gets == 1 {
			l.seal(false)
		}
	case wireDirect:
		l.tags++
		if l.tags<<1&comm.TagUB == 0 {
			l.tags++
		}
		x.tag = l.tags << 1 & comm.TagUB
		r.tag = x.tag
		l.filling.add(r, 0)
		l.seal(false)
		l.outbox = append(l.outbox, *x)
	case wireMark:
		l.filling.add(record{what: wireMark, op: x.op}, 0)
		l.seal(true)
		l.epoch, l.ahead = x.epoch+1, aheadBundles
	}
	return true
}

// make sees to a bundle that has room for a record with n bytes. The caller holds mu.
func (l *lane) make(n int) bool {
	if l.filling != nil && l.filling.room() < n {
		l.seal(false)
	}
	if l.filling == nil {
		if l.under+len(l.outbox) >= depth {
			return false
		}
		l.filling = newBundle()
	}
	return true
}

// seal ends the bundle that is being filled. The caller holds mu.
func (l *lane) seal(marks bool) {
	l.seq++
	l.filling.seal(l.epoch, l.seq)
	l.outbox = append(l.outbox, parcel{sealed: l.filling, synchro: l.ahead == 0, marks: marks})
	l.filling = nil
	l.ahead = max(l.ahead-1, 0)
}

// ship sends what is in the outbox, in order. The caller holds mu; ship lets go of it, and nothing
// is held while comm is called, because there the other side's protocol may run, or callbacks of
// this one.
func (l *lane) ship() {
	if l.busy {
		l.mu.Unlock()
		return
	}
	l.busy = true
	for len(l.outbox) > 0 {
		x := l.outbox[0]
		l.outbox[0] = parcel{}
		l.outbox = l.outbox[1:]
		l.under++
		l.mu.Unlock()
		l.send(&x)
		l.mu.Lock()
	}
	l.outbox = nil
	l.busy = false
	l.mu.Unlock()
}

func (l *lane) send(x *parcel) {
	c := l.p.c
	var req *comm.Request
	switch {
	case x.sealed == nil:
		// Synchronous, for a payload that comes before the target has seen the record must not be
		// copied there.
		req = c.Issend(x.buf, l.rank, int(x.tag))
	case x.synchro:
		req = c.Issend(comm.Raw(x.sealed.bytes(), comm.Byte), l.rank, bundleTag)
	default:
		req = c.Isend(comm.Raw(x.sealed.bytes(), comm.Byte), l.rank, bundleTag)
	}
	if x.marks {
		l.p.end(nil)
	}
	if ok, _, err := req.Peek(); ok {
		// and not Test, which runs callbacks: the caller of Put may hold a lock that they take
		l.sent(x, err)
		return
	}
	y := *x
	req.OnDone(func(err error) { l.sent(&y, err) })
}

const bundleTag = 0

// sent is the end of a parcel.
func (l *lane) sent(x *parcel, err error) {
	if err != nil {
		l.p.lose(l, err)
	}
	if x.sealed != nil {
		bundles.Put(x.sealed)
	} else {
		l.p.end(nil)
	}
	l.mu.Lock()
	l.under--
	for len(l.backlog) > 0 && l.pack(&l.backlog[0]) {
		l.backlog[0] = parcel{}
		l.backlog = l.backlog[1:]
	}
	if len(l.backlog) == 0 {
		l.backlog = nil
	}
	l.ship()
}

// listen posts the standing receive and handles what arrives, on the goroutine that brings it,
// until there is nothing more or what there is has to wait for a fence of this rank.
func (l *lane) listen() {
	p := l.p
	marked := false
	for {
		req := p.c.Irecv(comm.Raw(l.in.memory(), comm.Byte), l.rank, bundleTag)
		p.mu.Lock()
		l.req = req
		closed := p.closed
		p.mu.Unlock()
		if closed {
			req.Cancel() // the window is being freed, and has not seen it
			break
		}
		done, st, err := req.Peek()
		if !done {
			req.OnDone(func(err error) { l.next(l.arrived(req.Status(), err)) })
			break
		}
		mark, more := l.arrived(st, err)
		marked = marked || mark
		if !more {
			break
		}
	}
	if marked {
		p.mu.Lock()
		p.settle()
	}
}

// next goes on to listen after a message, if more may come. The receive is posted before a fence is
// completed, whose callbacks may take long.
func (l *lane) next(mark, more bool) {
	if !more {
		return
	}
	l.listen()
	if mark {
		l.p.mu.Lock()
		l.p.settle()
	}
}

// arrived takes the message of the standing receive. mark is whether it ended the rank's epoch;
// more, whether the next may come.
func (l *lane) arrived(st comm.Status, err error) (mark, more bool) {
	switch {
	case err == nil:
		l.in.n = st.Bytes
		return l.handle()
	case errors.Is(err, comm.ErrTruncated):
		l.p.broken(l, fmt.Errorf("a message of %d bytes; a bundle has %d or less", st.Bytes, bundleBytes))
	case !errors.Is(err, comm.ErrCancelled):
		l.p.lose(l, err)
	}
	return false, false
}

// handle carries out a bundle, or holds it back if it is of the next epoch.
func (l *lane) handle() (mark, more bool) {
	p := l.p
	epoch, seq, records, err := openBundle(l.in.bytes())
	if err == nil && seq != l.inSeq+1 {
		err = fmt.Errorf("bundle %d after bundle %d", seq, l.inSeq)
	}
	if err != nil {
		p.broken(l, err)
		return false, false
	}
	p.mu.Lock()
	now, marked, lost := p.epoch, l.marked, l.lost
	held := epoch == now+1 && marked
	l.held = held
	p.mu.Unlock()
	if epoch != now || marked {
		if !held && !lost {
			// fences do not wait for a lost rank, so what it sent before may come late
			p.broken(l, fmt.Errorf("a bundle of epoch %d in epoch %d", epoch, now))
		}
		return false, false
	}
	l.inSeq = seq
	var fence uint8 // of a mark
	for len(records) > 0 {
		var r record
		var data []byte
		if r, data, records, err = nextRecord(records, len(p.mem)); err == nil {
			err = l.perform(&r, data)
		}
		if err != nil {
			p.broken(l, err)
			return false, false
		}
		mark, fence = r.what == wireMark, r.op
	}
	if mark {
		p.mu.Lock()
		if !l.lost {
			l.marked, l.fence = true, fence
			p.marks++
		}
		p.mu.Unlock()
	}
	return mark, true
}

// perform carries out one record, which has been checked.
func (l *lane) perform(r *record, data []byte) error {
	p := l.p
	switch r.what {
	case wirePut:
		copy(p.mem[r.off:], data)
	case wireAccumulate:
		p.lock.Lock()
		defer p.lock.Unlock()
		return Apply(p.mem[r.off:r.off+r.n], comm.Raw(data, r.kind), wireOps[r.op])
	case wireGet:
		p.begin()
		p.c.Isend(comm.Raw(p.mem[r.off:r.off+r.n], comm.Byte), l.rank, int(r.tag)).OnDone(p.end)
	case wireDirect:
		p.begin()
		req := p.c.Irecv(comm.Raw(p.mem[r.off:r.off+r.n], comm.Byte), l.rank, int(r.tag))
		req.OnDone(func(err error) {
			if st := req.Status(); err == nil && uint64(st.Bytes) != r.n {
				err = fmt.Errorf("%d bytes for a put of %d", st.Bytes, r.n)
				p.broken(l, err)
			}
			p.end(err)
		})
	}
	return nil
}
