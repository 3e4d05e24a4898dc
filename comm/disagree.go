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

// newDisagreement says that rank r is in theirs where c's own rank is in mine.
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

// alsoError is an error that is of another kind as well.
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
	p.disagreed(c.ctx, d)
	p.world.stages.Progress() // once, for all ranks of this process
}

// spreadDisagreement tells some ranks of the run, or all if the run survives deaths: a rank that
// has failed by it may be known as lost before what it has said itself is heard, and nothing of it
// is taken any more then. So each rank that hears of it first tells the others.
func (p *proc) spreadDisagreement(ctx uint64, d *disagreement, ranks []int) {
	if p.world.survive {
		ranks = allRanks(p.world.size)
	}
	p.tellOthers(ranks, d.frame(ctx))
}

// frame says to others that the ranks of a communicator do not agree.
func (d *disagreement) frame(ctx uint64) fabric.Frame {
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{ctx, d.number, uint64(d.a)<<32 | uint64(d.b), wire.Disagreeing.Word(), d.from}}
	if d.number == 0 { // it is not known which, or not both
		f.Data = []byte(d.err.Error())[len(ErrMismatch.Error()):]
	} else {
		f.Data = d.sb.Append(d.sa.Append(nil))
	}
	return f
}

// disagreementOf reads it.
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

// disagreed records that ranks of a communicator do not agree, and ends its collectives at this
// rank. The first one counts: it returns false for others.
func (p *proc) disagreed(ctx uint64, d *disagreement) (news bool) {
	mine := &disagreement{err: d.err, from: d.from} // heard is this rank's
	news = p.change(func(t *trouble) bool {
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
		p.endBallots(ctx, mine)
	}
	return news
}

// disagreement returns why the collectives of c are lost, nil if they are not.
func (c *Comm) disagreement(t *trouble) *disagreement {
	if t == nil || t.disagrees == nil || c.hist == nil {
		return nil
	}
	return t.disagrees[c.hist.c.ctx]
}

// unheard returns a disagreement that no collective of this rank has failed with, or one with a
// rank that has made more collectives than this one, whose function is over.
func (p *proc) unheard() error {
	for _, c := range p.comms.Living() {
		c.hist.missing()
	}
	if t := p.trouble.Load(); t != nil {
		for ctx, d := range t.disagrees {
			if !d.heard.Load() && (!p.world.survive || p.find(ctx, nil) != nil) {
				// else only others may be concerned
				return d.err
			}
		}
	}
	return nil
}

// explained calls then with the reason why the collectives of c are lost, for which another rank
// was asked, or is now.
func (c *Comm) explained(err error, then func(error)) {
	p := c.proc
	p.mu.Lock()
	p.unexplained = append(p.unexplained, unexplained{c, err, then})
	p.mu.Unlock()
	if p.world.troubled.Load() {
		p.explain()
	}
}

// explain ends the wait for an explanation where there is one, or never will be.
func (p *proc) explain() {
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

// explanation asks rank src, and returns what explained says.
func (c *Comm) explanation(src int, err error) error {
	r, complete := NewRequest()
	r.engine = c.proc.engine
	c.ask(src, true, false)
	c.explained(err, complete)
	return wait(r)
}

// compareAll has the histories of all communicators of this rank compared with those of the others,
// at the end of its function: what no collective has found is found here. It is a frame for each
// communicator that has made collectives, and its answer; between processes the communicator of all
// ranks needs none, since the last barrier has its history. Each rank asks the one before it, and
// the first one the last: a rank that has made none at all asks nobody, but is asked.
//
// A communicator that has lost a member, or is revoked, is left out: its ranks may rightly have
// made different collectives since. Both spread faster than messages of ranks that know of them, so
// no rank compares with one that acts on them.
func (p *proc) compareAll() error {
	p.ended.Store(true)
	var all []*Comm
	for _, c := range p.comms.Living() {
		if c.hist.begun() > 0 && c.size > 1 && !c.inLastBarrier() && c.barredHere() == nil {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return p.unheard()
	}
	r, complete := NewRequest()
	r.engine = p.engine
	asked := map[int]int{}
	// if all neighbours agree, all do
	before := func(c *Comm) int { return (c.rank + c.size - 1) % c.size }
	for _, c := range all {
		asked[c.worldRank(before(c))]++
	}
	a := coll.NewAnswers(asked, complete)
	p.answers.Store(a)
	for _, c := range all {
		c.ask(before(c), false, true)
	}
	if t := p.trouble.Load(); t != nil { // what is known now may have come before a was there
		for _, r := range t.order {
			a.Lose(r)
		}
		if t.dead != nil {
			complete(nil)
		}
	}
	_ = wait(r)
	return p.unheard()
}

// inLastBarrier reports whether the last barrier compares the history of c: ranks of several
// processes make that barrier on the world communicator, after their functions. The barrier is part
// of the history. A rank whose function still runs does not have it yet, and that is no
// disagreement. Ranks that survive the loss of others agree to leave instead, which is no
// collective.
func (c *Comm) inLastBarrier() bool { return c.ctx == 0 && c.world.apart && !c.world.survive }

// endBallots ends the waiting for agreements that not all ranks have come to: some are in
// collectives instead.
func (p *proc) endBallots(ctx uint64, d *disagreement) {
	if d.from > 0 {
		p.ballots.End(ctx, d.from, d.err)
	}
}
