// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"weft/comm/internal/match"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

func (t *trouble) lostRank(r int) error {
	if t == nil {
		return nil
	}
	return t.lost[r]
}

func (t *trouble) isRevoked(ctx uint64) bool {
	if t == nil || t.revoked == nil {
		return false
	}
	_, ok := t.revoked[ctx&^1]
	return ok
}

// revokedIn says whether c is revoked, or what it was made of.
func (c *Comm) revokedIn(t *trouble) bool {
	return t != nil && t.revoked != nil && (t.isRevoked(c.ctx) || slices.ContainsFunc(c.line, t.isRevoked))
}

// clone returns a copy to be changed and published.
func (t *trouble) clone() *trouble {
	if t == nil {
		return &trouble{}
	}
	return &trouble{dead: t.dead, lost: maps.Clone(t.lost), order: slices.Clone(t.order), revoked: maps.Clone(t.revoked), disagrees: maps.Clone(t.disagrees)}
}

// failures returns the lost members of c. It computes them once per trouble.
func (c *Comm) failures(t *trouble) *failures {
	if f := c.failed.Load(); f != nil && f.of == t {
		return f
	}
	f := &failures{of: t}
	for _, r := range t.order {
		if m := c.memberRank(r); m >= 0 {
			f.ranks = append(f.ranks, m)
		}
	}
	c.failed.Store(f)
	return f
}

// memberRank returns the rank here of a rank of the run, -1 if it is no member.
func (c *Comm) memberRank(r int) int {
	if c.group == nil {
		return r
	}
	return slices.Index(c.group, int32(r))
}

// lostMember is the error of an operation that needs all members, nil if none is lost.
func (c *Comm) lostMember(t *trouble) error {
	if f := c.failures(t); len(f.ranks) > 0 {
		return t.lost[c.worldRank(f.ranks[0])]
	}
	return nil
}

// unacknowledged is the error of a receive from any source, nil if no member is lost that AckFailed
// has not covered.
func (c *Comm) unacknowledged(t *trouble) error {
	if f := c.failures(t); len(f.ranks) > int(c.acked.Load()) {
		return t.lost[c.worldRank(f.ranks[c.acked.Load()])]
	}
	return nil
}

// barred returns why an operation on c with a peer cannot be begun, or go on, nil if nothing is in
// its way. The peer may be AnySource, collectives need all.
func (c *Comm) barred(t *trouble, peer int, collective bool) error {
	switch {
	case t == nil:
		return nil
	case t.dead != nil:
		return t.dead
	case c.revokedIn(t):
		return ErrRevoked
	case collective:
		if d := c.disagreement(t); d != nil {
			return d.err
		}
		return c.lostMember(t)
	case peer == AnySource:
		return c.unacknowledged(t)
	}
	return t.lostRank(c.worldRank(peer))
}

// trouble returns why a message to a peer cannot be sent; collectives need all. The caller has seen
// world.troubled.
func (c *Comm) trouble(peer int, collective bool) error {
	if a := c.world.aborted.Load(); a != nil {
		return a
	}
	return c.barred(c.proc.trouble.Load(), peer, collective)
}

// barred returns why a receive or probe cannot be posted. Messages that are here are received all
// the same, unless the communicator is of no use any more. The caller holds mu.
func (p *proc) barred(t *trouble, op *recvOp) error {
	collective := op.entry.Key.Ctx&1 != 0
	err := op.c.barred(t, int(op.entry.Key.Src), collective)
	if err == nil || collective || t.dead != nil || op.c.revokedIn(t) || p.m.Peek(op.entry.Key) == nil {
		return err
	}
	return nil
}

// barredNow is barred where there may be no trouble. It is short, to be part of its caller.
func (p *proc) barredNow(op *recvOp) error {
	if t := p.trouble.Load(); t != nil {
		return p.barred(t, op)
	}
	return nil
}

// sent is what a sender is told whose receiver ends with err: the run has ended, or just the
// receiver.
func (p *proc) sent(err error) error {
	if a := p.world.aborted.Load(); a != nil {
		return a
	}
	return &LostError{Rank: p.rank, Err: err}
}

// refused ends a send to a rank of this process, which that rank does not take. Who is told so has
// heard of it: what the program sees next agrees with the error.
func (op *sendOp) refused(err error) {
	p := op.c.proc
	var lost *LostError
	switch {
	case err == ErrRevoked:
		if p.revoke(op.c.ctx) {
			p.world.stages.Progress()
		}
	case errors.As(err, &lost) && lost.Rank != p.rank && p.world.aborted.Load() == nil:
		if p.lose(lost.Rank, lost) {
			p.world.stages.Progress()
		}
	case errors.Is(err, ErrMismatch):
		ctx := op.c.hist.c.ctx
		if d := op.c.peers[op.dst].trouble.Load().disagrees[ctx]; d != nil && p.disagreed(ctx, d) {
			p.world.stages.Progress()
		}
	}
	op.done(op.fail(err))
}

// refuses returns why a message is not taken, nil if it is. The caller holds mu.
func (p *proc) refuses(t *trouble, h *wire.Header, from *sendOp) error {
	switch {
	case t.dead != nil:
		return p.sent(t.dead)
	case t.isRevoked(h.Ctx):
		return ErrRevoked
	case h.Ctx&1 != 0 && t.disagrees[h.Ctx&^1] != nil:
		return t.disagrees[h.Ctx&^1].err
	case from != nil && from.c.revokedIn(t):
		return ErrRevoked
	case from != nil && h.Ctx&1 != 0:
		// Nobody here will come to this collective, and who sends may have looked before it knew.
		for _, r := range t.order {
			if from.c.memberRank(r) >= 0 {
				return t.lost[r]
			}
		}
		return nil
	case from != nil:
		// A rank of this process that has died and goes on sending: its memory is to be let go.
		return t.lostRank(from.c.proc.rank)
	}
	return nil
}

// hit reports whether a trouble ends a pending operation. The operation belongs to the communicator
// c, nil if another process began it, and its message has the context ctx. peer is the rank of the
// run on the other side: AnySource for a receive from any rank, NoPeer if the message is here
// already.
type hit func(c *Comm, ctx uint64, peer int) bool

// change replaces the trouble, and ends the operations that it hits with err. It returns false if
// edit reports nothing new. The caller ends what waits where ranks meet: Look goes through all
// ranks of the process, so a caller that changes many ranks calls it once.
func (p *proc) change(edit func(t *trouble) bool, err error, hits hit) bool {
	p.world.troubled.Store(true)
	p.mu.Lock()
	t := p.trouble.Load()
	if t != nil && t.dead != nil {
		p.mu.Unlock()
		return false
	}
	t = t.clone()
	if !edit(t) {
		p.mu.Unlock()
		return false
	}
	p.trouble.Store(t)
	posts, arrivals := p.m.Extract(func(e *match.Posted) bool {
		op, peer := opOf(e), int(e.Key.Src)
		if peer != AnySource {
			peer = op.c.worldRank(peer)
		}
		return hits(op.c, e.Key.Ctx, peer)
	}, func(a *match.Arrival) bool {
		switch msg := messageOf(a); {
		case msg.from != nil:
			return hits(msg.from.c, a.Key.Ctx, msg.from.c.proc.rank)
		case msg.far != 0:
			return hits(nil, a.Key.Ctx, msg.far-1)
		}
		return hits(nil, a.Key.Ctx, NoPeer)
	})
	p.mu.Unlock()
	p.end(posts, arrivals, err, err)
	p.far.end(p, err, hits)
	return true
}

// end ends the operations that the matcher has given up: receives with err, and sends of ranks of
// this process with sent.
func (p *proc) end(posts []*match.Posted, arrivals []*match.Arrival, err, sent error) {
	for _, e := range posts {
		op := opOf(e)
		op.st, op.err = Status{}, op.fail(err)
		op.done()
	}
	for _, a := range arrivals {
		msg := messageOf(a)
		if msg.from != nil {
			msg.from.refused(sent)
		}
		if msg.data != nil {
			msg.data.Free()
		}
	}
	p.explain()
}

// lose records that rank r of the run is lost, and ends what needs it. It returns false if that was
// known.
func (p *proc) lose(r int, err error) bool {
	news := p.change(func(t *trouble) bool {
		if t.lost[r] != nil {
			return false
		}
		if t.lost == nil {
			t.lost = map[int]error{}
		}
		t.lost[r] = err
		t.order = append(t.order, r)
		return true
	}, err, func(c *Comm, ctx uint64, peer int) bool {
		return peer == r || c != nil && (ctx&1 != 0 || peer == AnySource) && c.memberRank(r) >= 0
	})
	if news {
		p.ballots.Lose(r)
		if a := p.answers.Load(); a != nil {
			a.Lose(r)
		}
		p.drop(r, err)
	}
	return news
}

// revoke records that a communicator is revoked, and ends what is pending on it. It returns false
// if that was known.
func (p *proc) revoke(revoked uint64) bool {
	return p.change(func(t *trouble) bool {
		if t.isRevoked(revoked) {
			return false
		}
		if t.revoked == nil {
			t.revoked = map[uint64]struct{}{}
		}
		t.revoked[revoked] = struct{}{}
		return true
	}, ErrRevoked, func(c *Comm, ctx uint64, _ int) bool {
		return ctx&^1 == revoked || c != nil && slices.Contains(c.line, revoked)
	})
}

// end ends the hit operations that wait for ranks of other processes. A receive into whose memory
// the fabric is writing ends when the fabric has finished the piece.
func (f *far) end(p *proc, err error, hits hit) {
	var over []func()
	f.mu.Lock()
	for id, op := range f.sends {
		if hits(op.c, op.ctx(), op.far) {
			over = append(over, func() { op.done(op.fail(err)) })
			f.withdrawLocked(id, op.far)
		}
	}
	for number, t := range f.pulls {
		if hits(t.op.c, t.op.entry.Key.Ctx, t.src) {
			t.why = cmp.Or(t.why, err)
			over = append(over, func() { f.forget(p, number, t, err) })
		}
	}
	f.mu.Unlock()
	for _, end := range over {
		end()
	}
}

// withdrawLocked takes back an announced send. The receiver may have asked for it already: that is
// then no breach of the protocol. +checklocks:f.mu
func (f *far) withdrawLocked(id uint64, dst int) {
	delete(f.sends, id)
	if f.withdrawn == nil {
		f.withdrawn = make(map[uint64]int)
	}
	f.withdrawn[id] = dst
}

// interrupted returns why a transfer that was just begun must not go on: what has gone wrong
// meanwhile may not have seen it.
func (p *proc) interrupted(c *Comm, peer int, collective bool) error {
	if !p.world.troubled.Load() {
		return nil
	}
	return c.barred(p.trouble.Load(), peer, collective)
}

// dropAfter is how long the way to a lost rank stays open. That rank may be alive, and only out of
// reach of another one: it hears its own obituary then, by this way, and ends. Were the way cut at
// once, it would take the others for lost.
const dropAfter = newsWait

// drop has the fabric let go of a rank that is lost, so that what waits to be sent to it, and
// transfers that it will never end, do not stay until the end of the run.
func (p *proc) drop(r int, err error) {
	if p.world.at(r) == nil {
		time.AfterFunc(dropAfter, func() { p.ep.Drop(r, err) })
	}
}

// newsWait is how long one waits to hear why a rank has closed its end.
const newsWait = 2 * time.Second

// stranded decides what becomes of an operation that a fabric has ended with err, because rank dst
// of the run does not take part any more. It returns true if the operation waits; end, which may be
// nil, is then called with the error, once.
//
// Where a run survives losses, or the run has ended, nothing waits. Elsewhere a rank that does not
// take part is the end of the run, and why is told by a frame or by the launcher, perhaps on
// another way than the one that has just failed: who fails at once, with the loss as its reason,
// hides the cause from its user. If there are no such news for a while, the loss is the cause.
func (p *proc) stranded(dst int, err error, end func(error)) bool {
	if err == nil || p.world.survive || known(err) {
		return false
	}
	f := &p.far
	f.mu.Lock()
	if f.dead != nil {
		f.mu.Unlock()
		return false
	}
	if end != nil {
		f.stranded = append(f.stranded, end)
	}
	first := !f.waits
	f.waits = true
	f.mu.Unlock()
	if first {
		lost := &RankError{Rank: dst, Err: &LostError{Rank: dst, Err: err}}
		// which does nothing if the run has ended
		time.AfterFunc(newsWait, func() { p.world.end(lost) })
	}
	return true
}

// barredHere returns why a collective cannot go on, nil if nothing is in its way.
func (c *Comm) barredHere() error {
	if !c.world.troubled.Load() {
		return nil
	}
	return c.trouble(NoPeer, true)
}

// tellOthers sends a frame to those of some ranks of the run that are not lost.
func (p *proc) tellOthers(ranks []int, f fabric.Frame) {
	t := p.trouble.Load()
	for _, r := range ranks {
		if r != p.rank && t.lostRank(r) == nil {
			_ = p.frame(r, f)
		}
	}
}

// tellFar sends a frame to those ranks of other processes that are not lost.
func (p *proc) tellFar(f fabric.Frame) {
	p.tellOthers(slices.DeleteFunc(allRanks(p.world.size), func(r int) bool { return p.world.at(r) != nil }), f)
}
