// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/coll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// note counts what needs neither a shared-memory slot nor a schedule: an agreement, or a collective
// that another package makes of messages. It returns its number among the collectives.
func (h *history) note(k coll.Kind) (number uint64) {
	if s := h.c.member; s != nil {
		return s.Note(k)
	}
	h.Mu.Lock()
	defer h.compareIfBehind()
	defer h.Mu.Unlock()
	return h.Note(k)
}

// next returns the number that the rank's next collective will have.
func (h *history) next() uint64 {
	if s := h.c.member; s != nil {
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

// compareIfBehind runs after each addition to the history, without its lock: it compares with ranks
// that were ahead of this one.
func (h *history) compareIfBehind() {
	if h.Behind() {
		h.compareAsked()
	}
}

// compare looks for the first collective on which another rank and this one do not agree. If there
// is one, all ranks are told. Collectives that this rank has not begun yet are compared when it
// begins them.
//
// Nothing is compared if the communicator is revoked, or has lost a member: this rank may rightly
// have gone on in another way than a rank that has not heard of it. That rank will hear of it by
// itself.
func (h *history) compare(q coll.Question) {
	c := h.c
	if c.barredHere() != nil {
		return
	}
	if n, mine := h.Compare(&q); n != 0 {
		c.disagree(newDisagreement(c, n, q.From, q.At(n), mine))
	} else if q.Certain {
		c.disagree(&disagreement{err: fmt.Errorf("%w: ranks %d and %d have made different collectives before number %d", ErrMismatch, min(q.From, c.rank), max(q.From, c.rank), q.First())})
	}
}

// compareAsked answers the questions of ranks that were ahead.
func (h *history) compareAsked() {
	for _, q := range h.Take() {
		h.compare(q)
	}
}

// missing reports a disagreement if another rank has made collectives that this rank, whose
// function has returned, has not, and no failure explains it.
func (h *history) missing() {
	if !h.Behind() || h.notBegun.Load() > 0 || h.c.inLastBarrier() || h.c.barredHere() != nil {
		return
	}
	for _, q := range h.Take() {
		n, theirs := h.Missing(&q)
		h.c.disagree(&disagreement{from: n, err: fmt.Errorf("%w: number %d of the communicator: rank %d is in %v, rank %d has returned",
			ErrMismatch, n, q.From, theirs, h.c.rank)})
	}
}

// ask sends a rank of c this rank's history to compare.
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

// addComm makes a communicator known that is complete and has made no collective, and answers the
// questions about it that came before.
func (p *proc) addComm(c *Comm) {
	for _, q := range p.comms.Add(c.ctx, c) {
		c.hist.compare(q)
	}
}

// findComm returns the communicator of a context, nil if this rank has none. A question about it is
// kept then, if it may come to be.
func (p *proc) findComm(ctx uint64, q *coll.Question) *Comm {
	if ctx == leaveCtx {
		ctx = 0
	}
	return p.comms.Find(ctx, q)
}
