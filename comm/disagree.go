// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"

	"weft/comm/internal/coll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// newDisagreement records that rank r is in theirs where c's own rank is in mine.
func newDisagreement(c *Comm, number uint64, r int, theirs, mine coll.Signature) *disagreement {
	d := &disagreement{number: number, a: r, b: c.rank, sa: theirs, sb: mine}
	if d.a > d.b {
		d.a, d.b, d.sa, d.sb = d.b, d.a, d.sb, d.sa
	}
	d.explain()
	return d
}

func (d *disagreement) explain() {
	if d.sa.What.IsAgreement() || d.sb.What.IsAgreement() {
		d.from = d.number
	}
	d.err = fmt.Errorf("%w: number %d of the communicator: rank %d is in %v, rank %d is in %v", ErrMismatch, d.number, d.a, d.sa, d.b, d.sb)
	if (d.sa.What^d.sb.What)<<(64-coll.ElemShift) == 0 && d.sa.Unit == d.sb.Unit {
		d.err = &alsoError{d.err, ErrType} // nothing else differs
	}
}

// alsoError is an error that also matches a second one.
type alsoError struct {
	error
	also error
}

func (e *alsoError) Unwrap() []error { return []error{e.error, e.also} }

// disagree ends the collectives of a communicator at all its ranks.
func (c *Comm) disagree(d *disagreement) {
	var ranks []int
	for r := range c.size {
		ranks = append(ranks, c.worldRank(r))
	}
	p := c.proc
	p.spreadDisagreement(c.ctx, d, ranks)
	p.recordDisagreement(c.ctx, d)
	p.world.segments.Progress() // once, for all ranks of this process
}

// spreadDisagreement tells some ranks of the run or, if the run survives deaths, all. Reason: a
// rank that fails by the disagreement may be known as lost before the frames that it sent itself
// are read, and the others drop those frames then. So each rank that hears of a disagreement for
// the first time tells the others.
func (p *proc) spreadDisagreement(ctx uint64, d *disagreement, ranks []int) {
	if p.world.survive {
		ranks = allRanks(p.world.size)
	}
	p.tellOthers(ranks, d.frame(ctx))
}

// frame is the frame that tells other ranks of the disagreement.
func (d *disagreement) frame(ctx uint64) fabric.Frame {
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{ctx, d.number, uint64(d.a)<<32 | uint64(d.b), wire.Disagreeing.Word(), d.from}}
	if d.number == 0 { // the number, or one of the calls, is unknown
		f.Data = []byte(d.err.Error())[len(ErrMismatch.Error()):]
	} else {
		f.Data = d.sb.Append(d.sa.Append(nil))
	}
	return f
}

// disagreementOf reads such a frame.
func disagreementOf(f *fabric.Frame) (*disagreement, error) {
	d := &disagreement{number: f.Head[1], a: int(f.Head[2] >> 32), b: int(uint32(f.Head[2])), from: f.Head[4]}
	switch {
	case f.Head[0]&1 != 0 || d.number != 0 && len(f.Data) != 2*coll.SignatureBytes || len(f.Data) > maxReason:
		return nil, fmt.Errorf("it says in %d bytes that ranks do not agree", len(f.Data))
	case d.number == 0:
		d.err = fmt.Errorf("%w%s", ErrMismatch, f.Data)
	default:
		d.sa, d.sb = coll.SignatureOf(f.Data), coll.SignatureOf(f.Data[coll.SignatureBytes:])
		d.explain()
	}
	return d, nil
}

// recordDisagreement records that ranks of a communicator do not agree, and ends its collectives at
// this rank. Only the first disagreement counts: recordDisagreement returns false for others.
func (p *proc) recordDisagreement(ctx uint64, d *disagreement) (news bool) {
	mine := &disagreement{err: d.err, from: d.from} // reported is this rank's own
	news = p.change(func(t *failureState) bool {
		if t.disagrees[ctx] != nil {
			return false
		}
		if t.disagrees == nil {
			t.disagrees = map[uint64]*disagreement{}
		}
		t.disagrees[ctx] = mine
		return true
	}, d.err, func(c *Comm, of uint64, _ int) bool {
		return of == ctx|1 || of&1 != 0 && c != nil && c.hist.c.ctx == ctx
	})
	if news {
		p.endAgreements(ctx, mine)
	}
	return news
}

// disagreement returns why the collectives of c are lost, nil if they are not.
func (c *Comm) disagreement(t *failureState) *disagreement {
	if t == nil || t.disagrees == nil || c.hist == nil {
		return nil
	}
	return t.disagrees[c.hist.c.ctx]
}

// unreported returns a disagreement that no collective of this rank has failed with, or one with a
// rank that has made more collectives than this rank, whose function is over.
func (p *proc) unreported() error {
	for _, c := range p.comms.Living() {
		c.hist.missing()
	}
	if t := p.failure.Load(); t != nil {
		for ctx, d := range t.disagrees {
			if !d.reported.Load() && (!p.world.survive || p.findComm(ctx, nil) != nil) {
				// otherwise it may concern other ranks only
				return d.err
			}
		}
	}
	return nil
}

// onExplanation calls then with the reason why the collectives of c are lost, once another rank has
// told it. The caller has asked that rank, or asks it next.
func (c *Comm) onExplanation(err error, then func(error)) {
	p := c.proc
	p.mu.Lock()
	p.unexplained = append(p.unexplained, unexplained{c, err, then})
	p.mu.Unlock()
	if p.world.anyFailure.Load() {
		p.endUnexplained()
	}
}

// endUnexplained ends the wait of those whose explanation has come, or never will.
func (p *proc) endUnexplained() {
	p.mu.Lock()
	var over, left []unexplained
	for _, u := range p.unexplained {
		if err := u.c.barredHere(); err != nil {
			if errors.Is(err, ErrMismatch) {
				u.err = err
			}
			over = append(over, u)
		} else {
			left = append(left, u)
		}
	}
	p.unexplained = left
	p.mu.Unlock()
	for _, u := range over {
		u.then(u.err)
	}
}

// awaitExplanation asks rank src, and waits for the reason, as onExplanation.
func (c *Comm) awaitExplanation(src int, err error) error {
	r, complete := NewRequest()
	r.engine = c.proc.engine
	c.ask(src, true, false)
	c.onExplanation(err, complete)
	return wait(r)
}

// compareAll compares the histories of all communicators of this rank with those of the other
// ranks, after the rank's function: this finds what no collective has found. Each communicator that
// has made collectives costs one frame and its answer. Between processes the communicator of all
// ranks costs nothing, since the last barrier carries its history. Each rank asks the rank before
// it, and the first rank asks the last. A rank that has made no collective asks nobody, but is
// asked.
//
// A communicator that has lost a member, or is revoked, is skipped: its ranks may rightly have made
// different collectives since. The news of both spreads faster than messages of ranks that act on
// it, so no rank compares with such a rank.
func (p *proc) compareAll() error {
	p.ended.Store(true)
	var all []*Comm
	for _, c := range p.comms.Living() {
		if c.hist.begun() > 0 && c.size > 1 && !c.inLastBarrier() && c.barredHere() == nil {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return p.unreported()
	}
	r, complete := NewRequest()
	r.engine = p.engine
	asked := map[int]int{}
	// if all neighbours agree, all ranks do
	before := func(c *Comm) int { return (c.rank + c.size - 1) % c.size }
	for _, c := range all {
		asked[c.worldRank(before(c))]++
	}
	a := coll.NewAnswers(asked, complete)
	p.answers.Store(a)
	for _, c := range all {
		c.ask(before(c), false, true)
	}
	if t := p.failure.Load(); t != nil {
		// the rank may have learned of these losses before a was stored
		for _, r := range t.order {
			a.Lose(r)
		}
		if t.dead != nil {
			complete(nil)
		}
	}
	_ = wait(r)
	return p.unreported()
}

// inLastBarrier reports whether the last barrier compares the history of c. Ranks of several
// processes make that barrier on the world communicator, after their functions, and it is part of
// the history. A rank whose function still runs does not have it yet, which is no disagreement.
// Ranks that survive losses make an agreement to leave instead, which is no collective.
func (c *Comm) inLastBarrier() bool { return c.ctx == 0 && c.world.multiProcess && !c.world.survive }

// endAgreements ends the waiting for agreements that not all ranks take part in: some are in
// collectives instead.
func (p *proc) endAgreements(ctx uint64, d *disagreement) {
	if d.from > 0 {
		p.agreements.End(ctx, d.from, d.err)
	}
}
