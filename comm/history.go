// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"weft/comm/internal/coll"
	"weft/internal/fabric"
)

// historyLen is how many collectives a rank remembers, to say which one it was that ranks did not agree on. A guess: ranks
// notice with the next collective that they have in common, mostly.
const historyLen = 16

// history is what one rank knows of the collectives of a communicator: so much that it can be compared with another rank's.
// README.md, "Collectives that disagree", has the argument.
//
// It is written with each collective, and other ranks' histories are beside it in memory: so it is of full cache lines, two by two.
type history struct {
	c *Comm // constant

	mu sync.Mutex // held by who numbers the collectives of communicators without hub and board

	// Guarded by what numbers the communicator's collectives: see lock.
	count uint64     // collectives so far
	state uint64     // digest of all of them
	asked []question // of ranks that are ahead of this one

	behind atomic.Bool  // there are such
	later  atomic.Int32 // collectives that this rank has taken on and not begun: see Later

	last [historyLen]coll.Signature // by number modulo; guarded as count is
	_    [64]byte
}

// question is what another rank tells of its history, for this one to compare.
type question struct {
	from    int              // its rank here
	count   uint64           // its collectives so far
	last    []coll.Signature // the last of them, in their order
	certain bool             // it has seen that the two do not agree
}

// record adds a collective, and gives d.what its bits of the history. The caller holds the lock that numbers collectives.
func (h *history) record(d *coll.Call, elem uint64) {
	s := coll.NewSignature(d.What, elem, d.Unit)
	h.count++
	h.state = s.Digest(h.state)
	h.last[h.count%historyLen] = s
	d.What = s.What | coll.Collective(h.state>>48)<<coll.HistoryShift
}

// note adds what is made neither at a hub or board nor by a schedule: an agreement, or a collective
// that another package makes of messages. It returns the number that this has among the
// collectives. Agree and Shrink count as one: which of them ranks are in, the agreement itself
// finds out.
func (h *history) note(k coll.Kind) (number uint64) {
	l := h.lock()
	l.Lock()
	defer h.recorded()
	defer l.Unlock()
	if hub := h.c.hub; hub != nil {
		if r := &hub.ranks[h.c.rank]; len(r.queue) > 0 { // which are not numbered yet
			r.queue = append(r.queue, lateOne{c: h.c, d: coll.Call{Kind: k}})
			hub.late.Add(1)
			return h.count + uint64(len(r.queue))
		}
	}
	h.recordNote(k)
	return h.count
}

// recordNote is record for what note adds.
func (h *history) recordNote(k coll.Kind) {
	s := coll.Signature{What: coll.NewCollective(k, nil, -1)}
	h.count++
	h.last[h.count%historyLen] = s
	if k == coll.Shrink {
		s.What = coll.NewCollective(coll.Agree, nil, -1)
	}
	h.state = s.Digest(h.state)
}

// recorded follows record, when the lock is free.
func (h *history) recorded() {
	if h.behind.Load() {
		h.compareAsked()
	}
}

// lock returns the lock under which this rank numbers the collectives of the communicator.
func (h *history) lock() sync.Locker {
	switch c := h.c; {
	case c.board != nil:
		return &c.board.mu
	case c.hub != nil:
		return &c.hub.ranks[c.rank].mu
	}
	return &h.mu
}

// told returns what the rank tells of its history.
func (h *history) told() question {
	l := h.lock()
	l.Lock()
	defer l.Unlock()
	q := question{from: h.c.rank, count: h.count}
	for n := h.count - min(h.count, historyLen) + 1; n <= h.count; n++ {
		q.last = append(q.last, h.last[n%historyLen])
	}
	return q
}

// compare looks for the first collective on which another rank and this one do not agree; if there is one, all ranks hear of
// it. What this rank has not begun yet is compared when it does.
//
// Where the communicator is revoked, or has lost a member, nothing is compared: this rank may
// rightly have gone on in another way than one that has not heard of it. That one hears of it by
// itself.
func (h *history) compare(q question) {
	c := h.c
	if c.barredHere() != nil {
		return
	}
	l := h.lock()
	l.Lock()
	first := q.count - uint64(len(q.last)) + 1
	var found *disagreement
	for n := first; n <= min(q.count, h.count); n++ {
		if n+historyLen <= h.count {
			continue // forgotten
		}
		if mine, theirs := h.last[n%historyLen], q.last[n-first]; !mine.Agrees(theirs) {
			found = newDisagreement(c, n, q.from, theirs, mine)
			break
		}
	}
	switch {
	case found != nil:
	case q.certain:
		found = &disagreement{err: fmt.Errorf("%w: ranks %d and %d have made different ones before number %d", ErrMismatch, min(q.from, c.rank), max(q.from, c.rank), first)}
	case q.count > h.count:
		h.asked = slices.DeleteFunc(h.asked, func(o question) bool { return o.from == q.from })
		h.asked = append(h.asked, q)
		h.behind.Store(true)
	}
	l.Unlock()
	if found != nil {
		c.disagree(found)
	}
}

// compareAsked compares with the ranks that were ahead.
func (h *history) compareAsked() {
	for _, q := range h.take() {
		h.compare(q)
	}
}

func (h *history) take() []question {
	l := h.lock()
	l.Lock()
	defer l.Unlock()
	asked := h.asked
	h.asked = nil
	h.behind.Store(false)
	return asked
}

// missing says so if another rank has made collectives that this one, whose function is over, has
// not, and nothing else is known to be in their way.
func (h *history) missing() {
	if !h.behind.Load() || h.later.Load() > 0 || h.c.inLastBarrier() || h.c.barredHere() != nil {
		return
	}
	for _, q := range h.take() {
		first := q.count - uint64(len(q.last)) + 1
		n := max(h.count+1, first)
		h.c.disagree(&disagreement{from: n, err: fmt.Errorf("%w: number %d of the communicator: rank %d is in %v, rank %d has come to its end",
			ErrMismatch, n, q.from, q.last[n-first], h.c.rank)})
	}
}

// ask has a rank of c compare its history with this one's.
func (c *Comm) ask(r int, certain, answer bool) {
	q := c.hist.told()
	var flags uint64
	if certain {
		flags |= askCertain
	}
	if answer {
		flags |= askAnswer
	}
	data := make([]byte, 0, coll.SignatureBytes*len(q.last))
	for _, s := range q.last {
		data = s.Append(data)
	}
	of := c.hist.c
	_ = c.proc.frame(of.worldRank(r), fabric.Frame{Head: [fabric.HeadWords]uint64{of.ctx, uint64(q.from), q.count, comparing.word() | flags}, Data: data})
}

const (
	askCertain = 1 << iota
	askAnswer
)

// compared is the arrival of a question.
func (p *proc) compared(src int, f *fabric.Frame) error {
	n := len(f.Data) / coll.SignatureBytes
	q := question{from: int(f.Head[1]), count: f.Head[2], certain: f.Head[3]&askCertain != 0}
	if len(f.Data)%coll.SignatureBytes != 0 || uint64(n) != min(q.count, historyLen) {
		return fmt.Errorf("it compares %d collectives in %d bytes", q.count, len(f.Data))
	}
	for b := f.Data; len(b) > 0; b = b[coll.SignatureBytes:] {
		q.last = append(q.last, coll.SignatureOf(b))
	}
	switch c := p.comms.find(f.Head[0], &q); {
	case c != nil:
		if uint(q.from) >= uint(c.size) || c.worldRank(q.from) != src {
			return fmt.Errorf("it compares collectives as rank %d of others", q.from)
		}
		c.hist.compare(q)
		if f.Head[3]&askAnswer != 0 && p.ended.Load() {
			c.hist.missing() // both functions are over
		}
	case q.certain: // nobody has the communicator here any more
		d := disagreement{err: fmt.Errorf("%w: rank %d has made others before number %d of the communicator", ErrMismatch, p.rank, q.count)}
		_ = p.frame(src, d.frame(f.Head[0]))
	}
	if f.Head[3]&askAnswer != 0 {
		_ = p.frame(src, fabric.Frame{Head: [fabric.HeadWords]uint64{3: answering.word()}})
	}
	return nil
}

// comms finds the communicators of a rank by their contexts, as long as anybody has them.
type comms struct {
	mu    sync.Mutex
	first *Comm                         // guarded by mu: of all ranks
	all   map[uint64]weak.Pointer[Comm] // guarded by mu: the others
	sweep int                           // guarded by mu: the size at which all is swept
	early []early                       // guarded by mu: of communicators that this rank has not made yet, perhaps
	late  [lateComms]*Comm              // guarded by mu: the last ones made, which are compared though nobody has them any more
	made  int                           // guarded by mu: communicators made
}

// lateComms bounds what the program has let go of and the run keeps (guess): a function makes a
// communicator, or two, uses it and forgets it.
const lateComms = 4

// early is a question about a communicator that is not known here.
type early struct {
	ctx uint64
	question
}

// maxEarly bounds them: those of communicators that nobody has any more stay.
const maxEarly = 64

// add makes a communicator known. It is complete, and has made no collective.
func (s *comms) add(c *Comm) {
	s.mu.Lock()
	if c.ctx == 0 {
		s.first = c
	} else {
		if len(s.all) >= s.sweep {
			for ctx, p := range s.all {
				if p.Value() == nil {
					delete(s.all, ctx)
				}
			}
			s.sweep = 2*len(s.all) + 8
		}
		if s.all == nil {
			s.all = map[uint64]weak.Pointer[Comm]{}
		}
		s.all[c.ctx] = weak.Make(c)
		s.late[s.made%lateComms] = c
		s.made++
	}
	var ask []question
	s.early = slices.DeleteFunc(s.early, func(e early) bool {
		if e.ctx == c.ctx {
			ask = append(ask, e.question)
		}
		return e.ctx == c.ctx
	})
	s.mu.Unlock()
	for _, q := range ask {
		c.hist.compare(q)
	}
}

// find returns a communicator, or nil and keeps the question, if there is one that can wait.
func (s *comms) find(ctx uint64, q *question) *Comm {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.first
	if ctx != 0 && ctx != leaving {
		c = s.all[ctx].Value()
	}
	if c == nil && q != nil && !q.certain {
		if len(s.early) == maxEarly {
			s.early = slices.Delete(s.early, 0, 1)
		}
		s.early = append(s.early, early{ctx, *q})
	}
	return c
}

// living returns all of them.
func (s *comms) living() []*Comm {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*Comm{s.first}
	for _, p := range s.all {
		if c := p.Value(); c != nil {
			all = append(all, c)
		}
	}
	return all
}
