// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/coll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// note adds what is made neither at a stage nor by a schedule: an agreement, or a collective that
// another package makes of messages. It returns the number that this has among the collectives.
func (h *history) note(k coll.Kind) (number uint64) {
	if s := h.c.seat; s != nil {
		return s.Note(k)
	}
	h.Mu.Lock()
	defer h.recorded()
	defer h.Mu.Unlock()
	return h.Note(k)
}

// next returns the number that the rank's next collective will have.
func (h *history) next() uint64 {
	if s := h.c.seat; s != nil {
		return s.Next()
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.Count() + 1
}

// begun returns how many collectives this rank has begun.
func (h *history) begun() uint64 {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.Count()
}

// recorded follows what adds to the history, when its lock is free.
func (h *history) recorded() {
	if h.Behind() {
		h.compareAsked()
	}
}

// compare looks for the first collective on which another rank and this one do not agree; if there
// is one, all ranks hear of it. What this rank has not begun yet is compared when it does.
//
// Where the communicator is revoked, or has lost a member, nothing is compared: this rank may
// rightly have gone on in another way than one that has not heard of it. That one hears of it by
// itself.
func (h *history) compare(q coll.Question) {
	c := h.c
	if c.barredHere() != nil {
		return
	}
	if n, mine := h.Compare(&q); n != 0 {
		c.disagree(newDisagreement(c, n, q.From, q.At(n), mine))
	} else if q.Certain {
		c.disagree(&disagreement{err: fmt.Errorf("%w: ranks %d and %d have made different ones before number %d", ErrMismatch, min(q.From, c.rank), max(q.From, c.rank), q.First())})
	}
}

// compareAsked compares with the ranks that were ahead.
func (h *history) compareAsked() {
	for _, q := range h.Take() {
		h.compare(q)
	}
}

// missing says so if another rank has made collectives that this one, whose function is over, has
// not, and nothing else is known to be in their way.
func (h *history) missing() {
	if !h.Behind() || h.later.Load() > 0 || h.c.inLastBarrier() || h.c.barredHere() != nil {
		return
	}
	for _, q := range h.Take() {
		n, theirs := h.Missing(&q)
		h.c.disagree(&disagreement{from: n, err: fmt.Errorf("%w: number %d of the communicator: rank %d is in %v, rank %d has come to its end",
			ErrMismatch, n, q.From, theirs, h.c.rank)})
	}
}

// ask has a rank of c compare its history with this one's.
func (c *Comm) ask(r int, certain, answer bool) {
	q := c.hist.NewQuestion(c.hist.c.rank)
	var flags uint64
	if certain {
		flags |= askCertain
	}
	if answer {
		flags |= askAnswer
	}
	of := c.hist.c
	_ = c.proc.frame(of.worldRank(r), fabric.Frame{Head: [fabric.HeadWords]uint64{of.ctx, uint64(q.From), q.Count, wire.Comparing.Word() | flags}, Data: q.Append(nil)})
}

const (
	askCertain = 1 << iota
	askAnswer
)

// known makes a communicator known, which is complete and has made no collective, and compares it
// with what others have asked.
func (p *proc) known(c *Comm) {
	for _, q := range p.comms.Add(c.ctx, c) {
		c.hist.compare(q)
	}
}

// find returns the communicator of a context, nil if nobody has it. A question about it waits, if
// it can.
func (p *proc) find(ctx uint64, q *coll.Question) *Comm {
	if ctx == leaving {
		ctx = 0
	}
	return p.comms.Find(ctx, q)
}
