// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"sync"
	"sync/atomic"

	"weft/comm"
)

// lane is the way to one rank of another process, and from it.
//
// Sending: operations are packed into the open bundle in the order of the calls; what does not fit while as much as allowed is
// under way waits in the backlog. A full bundle, and one that somebody waits for, goes to outbox, and whoever finds
// nobody busy with that sends it.
type lane struct {
	// Constant after construction.
	p    *port
	rank int

	mu      sync.Mutex
	filling *bundle  // guarded by mu; nil if there is nothing in it
	backlog []parcel // guarded by mu; while there is something in it, make refuses, and filling is nil
	outbox  []parcel // guarded by mu; sealed
	busy    bool     // guarded by mu: somebody is in ship
	under   int      // guarded by mu: parcels with comm that are not over
	ahead   int      // guarded by mu: bundles of this epoch that may still go without a rendezvous
	epoch   uint64   // guarded by mu: of what is packed now
	seq     uint64   // guarded by mu: bundles sealed
	tags    uint32   // guarded by mu: given last
	gets    int      // guarded by mu: asked for and not answered

	// Receiving: owned by whoever handles the message at hand.
	in    *bundle
	inSeq uint64

	// Receiving: guarded by p.mu.
	req    *comm.Request // the standing receive
	marked bool          // the rank has called the fence of this epoch, and nothing of this epoch follows
	fence  uint8         // and which: of fences
	held   bool          // the message at hand is of the next epoch
	lost   bool

	// gone: the rank does not take part in this window any more, though it lives. It is set when no
	// operation is under way.
	gone atomic.Bool
}

// Limits of a lane. A target has no more than 2*aheadBundles bundles of a lane in memory that it did not ask for: those
// of two epochs, since nobody is further ahead than that.
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

func newLane(p *port, rank int) *lane {
	return &lane{p: p, rank: rank, ahead: aheadBundles, in: new(bundle)}
}

// add takes an operation on.
func (l *lane) add(x parcel) {
	l.mu.Lock()
	if !l.pack(&x) {
		l.backlog = append(l.backlog, x)
	}
	l.ship()
}

// wish returns the tag for an answer to a get. They are odd; those of direct puts are even, and 0 is for bundles.
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

// pack puts an operation into bundles. It returns false if not all of it could be. The caller holds mu.
func (l *lane) pack(x *parcel) bool {
	r := record{what: x.what, op: x.op, kind: x.kind, tag: x.tag, off: uint64(x.off), n: uint64(x.n)}
	switch x.what {
	case wirePut:
		if !l.make(x.n) {
			return false
		}
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
		if !l.make(0) {
			return false
		}
		l.filling.add(r, 0)
		if l.gets++; l.gets == 1 {
			l.seal(false)
		}
	case wireDirect:
		if !l.make(0) {
			return false
		}
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
		if !l.make(0) {
			return false
		}
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

// ship sends what is in the outbox, in order. The caller holds mu; ship lets go of it, and nothing is held while comm is called,
// because there the other side's protocol may run, or callbacks of this one.
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
		// Synchronous, for a payload that comes before the target has seen the record must not be copied there.
		req = c.Issend(x.buf, l.rank, int(x.tag))
	case x.synchro:
		req = c.Issend(comm.Raw(x.sealed.bytes(), comm.Byte), l.rank, bundleTag)
	default:
		req = c.Isend(comm.Raw(x.sealed.bytes(), comm.Byte), l.rank, bundleTag)
	}
	if x.marks {
		l.p.end(nil)
	}
	if ok, _, err := req.Peek(); ok { // and not Test, which runs callbacks: the caller of Put may hold a lock that they take
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
