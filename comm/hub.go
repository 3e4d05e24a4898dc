// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"slices"
	"sync"
	"sync/atomic"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/internal/processors"
)

// Ranks that share an address space need no messages for a collective: each publishes its part in a place that all can
// see, and whoever sees that everything is there computes the result from the places, or copies straight from memory to
// memory. README.md has the protocol and its argument.

const (
	hubWidth  = 16  // collectives of one communicator that may be under way at a rank; more wait for a place
	inlineMax = 216 // bytes that a place has room for
	flatRanks = 32  // up to here each rank looks at the places of all others; a guess: 32 lines cost what five messages do
)

// hub is where the ranks of a communicator meet. It exists if they are all in this process.
type hub struct {
	// Constant after construction.
	world *world
	size  int
	procs int // processors that run Go code: where there are fewer than ranks, it does not pay to watch
	ranks []hubRank
	slots [hubWidth]hubSlot

	parted atomic.Uint64 // the last collective for which a rank has been left to another processor
	late   atomic.Int32  // operations that wait for a place
	drains atomic.Int32  // calls of drain under way; the first one works for all
}

// hubSlot is what the places of one collective share: the pieces of large ones. A word is seq<<pieceBits | count, and the
// first who needs it for a new collective moves it there.
type hubSlot struct {
	next atomic.Uint64 // pieces that somebody has taken; allTaken if the collective is aborted
	done atomic.Uint64 // pieces that are finished
	err  atomic.Pointer[hubError]
	_    [40]byte
}

type hubError struct {
	seq uint64
	err error
}

const (
	pieceBits = 20
	allTaken  = 1<<pieceBits - 1
)

// hubRank is a rank's part of the hub.
type hubRank struct {
	places atomic.Pointer[[hubWidth]place] // nil until the rank's first collective; all others read it, so it is in a line of its own
	comm   atomic.Pointer[Comm]            // the rank's; set before places
	_      [48]byte

	known atomic.Uint64 // some number such that all ranks have finished all collectives up to it
	woke  atomic.Bool   // the rank's last collective has woken a sleeping caller
	wakes atomic.Uint32 // how many have, since it has looked often and found
	found atomic.Uint32 // how often it has looked and found, one after the other

	mu    sync.Mutex
	next  uint64    // guarded by mu: the rank's last collective
	floor uint64    // guarded by mu: the rank has finished all up to this one
	queue []lateOne // guarded by mu: what waits for a place, oldest first
	_     [56]byte
}

type lateOne struct {
	c   *Comm
	d   coll.Call
	req *Request // nil: what has no place, but its turn in the history; see note
}

// hubPhase is what a place's owner is doing; with the number of the collective it makes the place's state.
type hubPhase uint64

const (
	active  hubPhase = 1 + iota // its rank is at it, and ends it itself or lets it wait
	passive                     // a request: whoever completes what it waits for claims and ends it
	asleep                      // a caller that sleeps: likewise; or it is made active and woken, to help
	claimed                     // somebody else ends it
)

const phaseBits = 3

func stateOf(seq uint64, p hubPhase) uint64 { return seq<<phaseBits | uint64(p) }

// waits returns the state of a place whose rank is passive or asleep in a collective, if it is.
func (p *place) waits(seq uint64) (uint64, bool) {
	s := p.state.Load()
	return s, s == stateOf(seq, passive) || s == stateOf(seq, asleep)
}

// claim makes somebody the one who ends what waits.
func (p *place) claim(seq uint64) bool {
	s, ok := p.waits(seq)
	return ok && p.state.CompareAndSwap(s, stateOf(seq, claimed))
}

// place is what one rank says of one collective. Its owner fills it, publishes it by state, and may fill it anew when all
// ranks have finished that collective.
type place struct {
	state  atomic.Uint64
	what   coll.Collective
	floor  uint64 // the owner has finished all up to this one
	unit   int
	elem   uint64 // kind and size
	inline [inlineMax]byte

	// Of interest to who ends it.
	coll.Call
	c        *Comm
	req      *Request   // nil: a caller
	waiter   *hubWaiter // of a caller that sleeps; set before it is passive
	inMem    []byte     // of large ones: the memory, or a copy where buffers are strided
	outMem   []byte
	stageIn  *mem.Block
	stageOut *mem.Block
	finished atomic.Uint64 // the last collective in this place that the owner has finished
	_        [16]byte
}

// hubWaiter is a sleeping caller.
type hubWaiter struct {
	ch  chan struct{} // capacity 1
	err error         // written before the token that says that it is over
}

var hubWaiters = sync.Pool{New: func() any { return &hubWaiter{ch: make(chan struct{}, 1)} }}

func newHub(w *world, size int) *hub {
	return &hub{world: w, size: size, procs: processors.Count(), ranks: make([]hubRank, size)}
}

func (h *hub) place(rank int, seq uint64) *place {
	if p := h.ranks[rank].places.Load(); p != nil {
		return &p[seq%hubWidth]
	}
	return nil
}

func (h *hub) slot(seq uint64) *hubSlot { return &h.slots[seq%hubWidth] }

// room reports whether the rank's place for a collective is free: whether all ranks have finished the one before in it.
func (h *hub) room(me int, seq uint64) bool {
	if seq <= hubWidth {
		return true
	}
	old := seq - hubWidth
	if h.ranks[me].known.Load() >= old {
		return true
	}
	for r := range h.ranks {
		if p := h.place(r, seq); p == nil || p.finished.Load() < old {
			return false
		}
	}
	return true
}

// enter publishes a rank's part of its next collective and returns the number; 0 if there is no place, and the request, which
// must then be one, waits for it.
func (h *hub) enter(c *Comm, d *coll.Call, req *Request) uint64 {
	r := &h.ranks[c.rank]
	r.mu.Lock()
	seq := r.next + 1
	if len(r.queue) == 0 && h.room(c.rank, seq) {
		h.publish(c, r, d, seq, req)
		r.mu.Unlock()
		c.hist.recorded()
		return seq
	}
	if req == nil {
		r.mu.Unlock()
		return 0
	}
	r.queue = append(r.queue, lateOne{c, *d, req})
	h.late.Add(1)
	r.mu.Unlock()
	if c.barredHere() != nil {
		h.look() // it may have been here before
	}
	h.drain() // room may have been made before others saw that somebody waits
	return 0
}

// publish fills the rank's place and shows it. The caller holds mu.
func (h *hub) publish(c *Comm, r *hubRank, d *coll.Call, seq uint64, req *Request) {
	ps := r.places.Load()
	if ps == nil {
		ps = new([hubWidth]place)
		r.comm.Store(c)
		r.places.Store(ps)
	}
	r.next = seq
	for r.floor+1 < seq && ps[(r.floor+1)%hubWidth].finished.Load() == r.floor+1 {
		r.floor++
	}
	p := &ps[seq%hubWidth]
	p.elem = d.Elem()
	c.hist.record(d, p.elem)
	p.what, p.unit, p.floor = d.What, d.Unit, r.floor
	p.Call, p.c, p.req, p.waiter = *d, c, req, nil
	if !d.Large {
		if n := d.Published(c.rank, h.size); n > 0 {
			d.In.Show(p.inline[:n])
		}
	} else {
		p.stage()
	}
	p.state.Store(stateOf(seq, active))
}

// here returns the first rank, from a given one on, whose part of a collective is not there yet; the size if all are.
func (h *hub) here(seq uint64, from int) int {
	for ; from < h.size; from++ {
		if p := h.place(from, seq); p == nil || p.state.Load()>>phaseBits != seq {
			break
		}
	}
	return from
}

// ready reports whether a rank can go on with a collective. It looks at states only, so anybody may ask at any time.
func (h *hub) ready(d *coll.Call, me int, seq uint64) bool {
	if d.Large {
		return h.here(seq, 0) == h.size && (h.complete(d, seq) || !h.exhausted(d, seq))
	}
	switch d.Kind {
	case coll.Bcast, coll.Scatter:
		if me == d.Root {
			return true
		}
		q := h.place(d.Root, seq)
		return q != nil && q.state.Load()>>phaseBits == seq
	case coll.Reduce, coll.Gather:
		if me != d.Root {
			return true
		}
	}
	return h.here(seq, 0) == h.size
}

// told ends what others wait for, as far as it was me's part that they were waiting for, and reports whether it has woken a caller. me
// is active. all: the parts of all ranks are there.
func (h *hub) told(d *coll.Call, me int, seq uint64, all bool) (woke bool) {
	switch {
	case d.Large:
	case d.Kind == coll.Bcast || d.Kind == coll.Scatter:
		if me != d.Root {
			return false
		}
	case d.Kind == coll.Reduce || d.Kind == coll.Gather:
		if me != d.Root {
			q := h.place(d.Root, seq)
			return q != nil && h.serve(q, d.Root, seq)
		}
	}
	if !d.Large && d.Kind != coll.Bcast && d.Kind != coll.Scatter && !all {
		return false
	}
	for i := 1; i < h.size; i++ {
		r := (me + i) % h.size
		if q := h.place(r, seq); q != nil && h.serve(q, r, seq) {
			woke = true
		}
	}
	return woke
}

// serve ends the collective of a rank that waits, if that has what it needs, and reports whether it has woken a caller. The caller of
// serve is active in the same collective, so the place stays what it is.
func (h *hub) serve(q *place, r int, seq uint64) (woke bool) {
	if _, ok := q.waits(seq); !ok || !h.ready(&q.Call, r, seq) {
		return false
	}
	if q.Large && !h.differs(q, seq) && !h.complete(&q.Call, seq) {
		return false // there is work to do first; who does the last of it ends it
	}
	if !q.claim(seq) {
		return false
	}
	woke = q.req == nil
	h.finishFor(q, r, seq)
	return woke
}

// finishFor ends a claimed place with its result. If a user's operator panics, its rank is not to wait for ever.
func (h *hub) finishFor(q *place, r int, seq uint64) {
	if err := h.agreed(q, r, seq); err != nil {
		h.finish(q, seq, err, false)
		return
	}
	if !q.Op.IsUser() {
		h.finish(q, seq, h.result(q, r, seq), false)
		return
	}
	err := error(ErrOperator)
	defer func() { h.finish(q, seq, err, false) }()
	err = h.result(q, r, seq)
}

// run goes on with a collective that me has published, as its active caller, until it is over, or until it has to be ended
// by somebody else. It returns whether it is over, and the error.
func (h *hub) run(c *Comm, d *coll.Call, seq uint64, caller bool) (bool, error) {
	me := c.rank
	p := h.place(me, seq)
	// Me is active here and at the beginning of each turn: all places of this collective stay what they are.
	all := h.sighted(p, seq)
	for first := true; ; first = false {
		if (first || d.Large) && h.told(d, me, seq, all) && caller && !d.Large {
			h.ranks[me].woke.Store(true)
		}
		if h.ready(d, me, seq) {
			err := h.agreed(p, me, seq)
			if err == nil && d.Large {
				h.work(p, me, seq)
			}
			if err != nil || !d.Large || h.complete(d, seq) {
				if err == nil {
					err = h.result(p, me, seq)
				}
				return true, h.finish(p, seq, err, true)
			}
		}
		if caller && h.watch(d, me, seq) {
			continue
		}
		if err := c.barredHere(); err != nil && (!d.Large || h.close(seq)) {
			return true, h.finish(p, seq, err, true)
		}
		var w *hubWaiter
		ph := passive
		if caller {
			w, ph = hubWaiters.Get().(*hubWaiter), asleep
			p.waiter = w
		}
		p.state.Store(stateOf(seq, ph))
		// Whoever looked at the place before that has left it alone, so look again.
		if h.ready(d, me, seq) || c.barredHere() != nil {
			if p.state.CompareAndSwap(stateOf(seq, ph), stateOf(seq, active)) {
				if w != nil {
					hubWaiters.Put(w)
				}
				continue
			}
		}
		if !caller {
			return false, nil
		}
		<-w.ch
		help := p.state.Load() == stateOf(seq, active)
		err := w.err
		w.err = nil
		hubWaiters.Put(w)
		if !help {
			return true, err
		}
	}
}

// result computes what a place waits for, and writes it to its memory. The place is active or claimed, ready and agreed; a large one is
// complete.
func (h *hub) result(p *place, me int, seq uint64) error {
	if !p.Large {
		return coll.Flat(&p.Call, me, h.size, hubParts{h, seq})
	}
	if e := h.slot(seq).err.Load(); e != nil && e.seq == seq {
		return e.err
	}
	return nil
}

// finish ends a collective at a rank. The caller has the right to: it has claimed the place, or it is the rank itself, active.
func (h *hub) finish(p *place, seq uint64, err error, self bool) error {
	p.unstage(err)
	c, what, req, waiter := p.c, p.what, p.req, p.waiter
	if err != nil {
		err = c.failColl(what, err)
	}
	p.In.Forget() // what the caller has need not be kept alive
	p.Out.Forget()
	p.c, p.req = nil, nil
	p.finished.Store(seq) // from here on the place may be filled anew
	if h.late.Load() != 0 {
		h.drain()
	}
	switch {
	case req != nil:
		req.complete(Status{}, err)
	case !self:
		waiter.err = err
		waiter.ch <- struct{}{}
	}
	return err
}

// drain finds places for what waits for one. The first call that comes works for those that come meanwhile.
func (h *hub) drain() {
	if h.drains.Add(1) > 1 {
		return
	}
	for n := int32(1); n > 0; n = h.drains.Add(-n) {
		for me := range h.ranks {
			for h.drainOne(me) {
			}
		}
	}
}

// drainOne starts the oldest waiting operation of a rank, if it has a place.
func (h *hub) drainOne(me int) bool {
	r := &h.ranks[me]
	r.mu.Lock()
	seq := r.next + 1
	if len(r.queue) == 0 || r.queue[0].req != nil && !h.room(me, seq) {
		r.mu.Unlock()
		return false
	}
	one := r.queue[0]
	r.queue[0] = lateOne{}
	r.queue = r.queue[1:]
	if one.req == nil {
		one.c.hist.recordNote(one.d.Kind)
		r.mu.Unlock()
		one.c.hist.recorded()
		h.late.Add(-1)
		return true
	}
	h.publish(one.c, r, &one.d, seq, one.req)
	r.mu.Unlock()
	one.c.hist.recorded()
	h.late.Add(-1)
	h.run(one.c, &one.d, seq, false)
	return true
}

// look ends what waits and cannot go on, because of a trouble of its rank. What others already work on is completed by them.
func (h *hub) look() {
	for me := range h.ranks {
		r := &h.ranks[me]
		var ended []lateOne
		r.mu.Lock()
		r.queue = slices.DeleteFunc(r.queue, func(one lateOne) bool {
			if one.c.barredHere() == nil {
				return false
			}
			ended = append(ended, one)
			return true
		})
		r.mu.Unlock()
		h.late.Add(-int32(len(ended)))
		for _, one := range ended {
			if one.req == nil {
				continue
			}
			one.req.complete(Status{}, one.c.failColl(one.d.What, one.c.barredHere()))
		}
		ps := r.places.Load()
		for i := 0; ps != nil && i < hubWidth; i++ {
			p := &ps[i]
			h.examine(p, me, p.state.Load()>>phaseBits)
		}
	}
}

// examine ends what waits at a place if its rank has a trouble. It has to claim the place to know that.
func (h *hub) examine(p *place, me int, seq uint64) {
	for {
		was, ok := p.waits(seq)
		if !ok || !p.state.CompareAndSwap(was, stateOf(seq, claimed)) {
			return
		}
		d := p.Call
		all := d.Large && h.here(seq, 0) == h.size
		err := p.c.barredHere()
		switch {
		case err != nil && (!d.Large || h.close(seq)):
			h.finish(p, seq, err, false)
			return
		case !d.Large && h.ready(&d, me, seq), all && h.complete(&d, seq), all && h.agreed(p, me, seq) != nil:
			h.finishFor(p, me, seq)
			return
		}
		// Give it back, and look again: who could have ended it meanwhile has found it claimed.
		p.state.Store(was)
		if d.Large && (all || h.here(seq, 0) < h.size) && !h.complete(&d, seq) || !d.Large && !h.ready(&d, me, seq) {
			return
		}
	}
}
