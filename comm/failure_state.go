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

func (t *failureState) lostRank(r int) error {
	if t == nil {
		return nil
	}
	return t.lost[r]
}

func (t *failureState) isRevoked(ctx uint64) bool {
	if t == nil || t.revoked == nil {
		return false
	}
	_, ok := t.revoked[ctx&^1]
	return ok
}

// revokedIn reports whether c is revoked, or a communicator that it was made of.
func (c *Comm) revokedIn(t *failureState) bool {
	return t != nil && t.revoked != nil && (t.isRevoked(c.ctx) || slices.ContainsFunc(c.lineage, t.isRevoked))
}

// clone returns a copy to change and publish.
func (t *failureState) clone() *failureState {
	if t == nil {
		return &failureState{}
	}
	return &failureState{dead: t.dead, lost: maps.Clone(t.lost), order: slices.Clone(t.order), revoked: maps.Clone(t.revoked), disagrees: maps.Clone(t.disagrees)}
}

// failures returns the lost members of c. It computes them once per failure state.
func (c *Comm) failures(t *failureState) *failures {
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

// memberRank returns the rank in c of a rank of the run, -1 if it is no member.
func (c *Comm) memberRank(r int) int {
	if c.group == nil {
		return r
	}
	return slices.Index(c.group, int32(r))
}

// lostMember is the error of an operation that needs all members, nil if none is lost.
func (c *Comm) lostMember(t *failureState) error {
	if f := c.failures(t); len(f.ranks) > 0 {
		return t.lost[c.worldRank(f.ranks[0])]
	}
	return nil
}

// unacknowledged is the error of a receive from any source, nil if AckFailed has acknowledged all
// lost members.
func (c *Comm) unacknowledged(t *failureState) error {
	if f := c.failures(t); len(f.ranks) > int(c.acked.Load()) {
		return t.lost[c.worldRank(f.ranks[c.acked.Load()])]
	}
	return nil
}

// barred returns why an operation on c with a peer cannot begin or go on, nil if it can. The peer
// may be AnySource; collectives need all members.
func (c *Comm) barred(t *failureState, peer int, collective bool) error {
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

// barredNow returns why a message to a peer cannot be sent now, nil if it can; collectives need all
// members. The caller has seen world.anyFailure.
func (c *Comm) barredNow(peer int, collective bool) error {
	if a := c.world.aborted.Load(); a != nil {
		return a
	}
	return c.barred(c.proc.failure.Load(), peer, collective)
}

// barred returns why a receive or probe cannot be posted. Messages that are here are still
// received, unless the communicator is revoked or the rank has ended. The caller holds mu.
func (p *proc) barred(t *failureState, op *recvOp) error {
	collective := op.entry.Key.Ctx&1 != 0
	err := op.c.barred(t, int(op.entry.Key.Src), collective)
	if err == nil || collective || t.dead != nil || op.c.revokedIn(t) || p.m.Peek(op.entry.Key) == nil {
		return err
	}
	return nil
}

// barredNow is barred of the current failure state, if there is one. It is short, so that it
// inlines.
func (p *proc) barredNow(op *recvOp) error {
	if t := p.failure.Load(); t != nil {
		return p.barred(t, op)
	}
	return nil
}

// sent is the error of a send whose receiver ends with err: the run has ended, or only the
// receiver.
func (p *proc) sent(err error) error {
	if a := p.world.aborted.Load(); a != nil {
		return a
	}
	return &LostError{Rank: p.rank, Err: err}
}

// refused ends a send to a rank of this process that refuses it. The sender's rank first records
// the failure that the receiver knows, so that what the program sees next agrees with the error.
func (op *sendOp) refused(err error) {
	p := op.c.proc
	var lost *LostError
	switch {
	case err == ErrRevoked:
		if p.revoke(op.c.ctx) {
			p.world.segments.Progress()
		}
	case errors.As(err, &lost) && lost.Rank != p.rank && p.world.aborted.Load() == nil:
		if p.markLost(lost.Rank, lost) {
			p.world.segments.Progress()
		}
	case errors.Is(err, ErrMismatch):
		ctx := op.c.hist.c.ctx
		if d := op.c.peers[op.dst].failure.Load().disagrees[ctx]; d != nil && p.recordDisagreement(ctx, d) {
			p.world.segments.Progress()
		}
	}
	op.done(op.fail(err))
}

// refuses returns why a message is refused, nil if it is not. The caller holds mu.
func (p *proc) refuses(t *failureState, h *wire.Header, from *sendOp) error {
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
		// No call here will ever take part in this collective, and the sender may have checked for
		// losses before it knew of this one.
		for _, r := range t.order {
			if from.c.memberRank(r) >= 0 {
				return t.lost[r]
			}
		}
		return nil
	case from != nil:
		// A rank of this process that has died and still sends: its memory must not be kept.
		return t.lostRank(from.c.proc.rank)
	}
	return nil
}

// affectedFunc reports whether a new failure ends a pending operation. The operation belongs to the
// communicator c, nil if another process began it, and its message has the context ctx. peer is the
// rank of the run on the other side: AnySource for a receive from any rank, NoPeer if the message
// is here already.
type affectedFunc func(c *Comm, ctx uint64, peer int) bool

// change replaces the failure state, and ends the affected operations with err. It returns false if
// edit reports nothing new. The caller ends the waiting in shared-memory collectives
// (Segments.Progress): that goes through all ranks of the process, so a caller that changes many
// ranks calls it once.
func (p *proc) change(edit func(t *failureState) bool, err error, affected affectedFunc) bool {
	p.world.anyFailure.Store(true)
	p.mu.Lock()
	t := p.failure.Load()
	if t != nil && t.dead != nil {
		p.mu.Unlock()
		return false
	}
	t = t.clone()
	if !edit(t) {
		p.mu.Unlock()
		return false
	}
	p.failure.Store(t)
	posts, arrivals := p.m.Extract(func(e *match.Posted) bool {
		op, peer := opOf(e), int(e.Key.Src)
		if peer != AnySource {
			peer = op.c.worldRank(peer)
		}
		return affected(op.c, e.Key.Ctx, peer)
	}, func(a *match.Arrival) bool {
		switch msg := messageOf(a); {
		case msg.from != nil:
			return affected(msg.from.c, a.Key.Ctx, msg.from.c.proc.rank)
		case msg.remote != 0:
			return affected(nil, a.Key.Ctx, msg.remote-1)
		}
		return affected(nil, a.Key.Ctx, NoPeer)
	})
	p.mu.Unlock()
	p.end(posts, arrivals, err, err)
	p.remote.end(p, err, affected)
	return true
}

// end ends operations that were taken out of the matcher: receives with err, and sends of ranks of
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
	p.endUnexplained()
}

// markLost records that rank r of the run is lost, and ends the operations that need it. It returns
// false if that was known.
func (p *proc) markLost(r int, err error) bool {
	news := p.change(func(t *failureState) bool {
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
		p.agreements.Lose(r)
		if a := p.answers.Load(); a != nil {
			a.Lose(r)
		}
		p.drop(r, err)
	}
	return news
}

// revoke records that a communicator is revoked, and ends its pending operations. It returns false
// if that was known.
func (p *proc) revoke(revoked uint64) bool {
	return p.change(func(t *failureState) bool {
		if t.isRevoked(revoked) {
			return false
		}
		if t.revoked == nil {
			t.revoked = map[uint64]struct{}{}
		}
		t.revoked[revoked] = struct{}{}
		return true
	}, ErrRevoked, func(c *Comm, ctx uint64, _ int) bool {
		return ctx&^1 == revoked || c != nil && slices.Contains(c.lineage, revoked)
	})
}

// end ends the affected operations that wait for ranks of other processes. A receive into whose
// memory the fabric is writing ends when the fabric has finished the piece.
func (f *remote) end(p *proc, err error, affected affectedFunc) {
	var over []func()
	f.mu.Lock()
	for id, op := range f.sends {
		if affected(op.c, op.ctx(), op.remote) {
			over = append(over, func() { op.done(op.fail(err)) })
			f.withdrawLocked(id, op.remote)
		}
	}
	for number, t := range f.transfers {
		if affected(t.op.c, t.op.entry.Key.Ctx, t.src) {
			t.why = cmp.Or(t.why, err)
			over = append(over, func() { f.forget(p, number, t, err) })
		}
	}
	f.mu.Unlock()
	for _, end := range over {
		end()
	}
}

// withdrawLocked takes back a send whose RTS was sent. Its CTS may be under way already: it is no
// breach of the protocol then. +checklocks:f.mu
func (f *remote) withdrawLocked(id uint64, dst int) {
	delete(f.sends, id)
	if f.withdrawn == nil {
		f.withdrawn = make(map[uint64]int)
	}
	f.withdrawn[id] = dst
}

// interrupted returns why a transfer that was just begun must not go on: a failure in between may
// have missed it.
func (p *proc) interrupted(c *Comm, peer int, collective bool) error {
	if !p.world.anyFailure.Load() {
		return nil
	}
	return c.barred(p.failure.Load(), peer, collective)
}

// dropAfter is how long the connection to a lost rank stays open. That rank may be alive, and only
// cut off from another one: it then gets its own failure notice by this connection, and ends. If
// the connection were cut at once, it would take the others for lost.
const dropAfter = causeWait

// drop has the fabric drop a lost rank, so that frames that wait to be sent to it, and transfers
// that it will never end, do not stay until the end of the run.
func (p *proc) drop(r int, err error) {
	if p.world.at(r) == nil {
		time.AfterFunc(dropAfter, func() { p.ep.Drop(r, err) })
	}
}

// causeWait is how long an operation waits for the reason why a rank has closed its endpoint.
const causeWait = 2 * time.Second

// awaitCause decides whether an operation waits that a fabric has ended with err, because rank dst
// of the run does not take part any more. It returns true if the operation waits; end, which may be
// nil, is then called with the error, once.
//
// If the run survives losses, or has ended, nothing waits. Otherwise the loss ends the run, and the
// rank's reason comes by a frame or from the launcher, perhaps on another connection than the one
// that has just failed. An operation that failed at once, with the loss as its error, would hide
// that reason from the user. If no reason comes within causeWait, the loss itself is the cause.
func (p *proc) awaitCause(dst int, err error, end func(error)) bool {
	if err == nil || p.world.survive || isOwnError(err) {
		return false
	}
	f := &p.remote
	f.mu.Lock()
	if f.dead != nil {
		f.mu.Unlock()
		return false
	}
	if end != nil {
		f.awaiting = append(f.awaiting, end)
	}
	first := !f.causeAwaited
	f.causeAwaited = true
	f.mu.Unlock()
	if first {
		lost := &RankError{Rank: dst, Err: &LostError{Rank: dst, Err: err}}
		// no effect if the run has ended
		time.AfterFunc(causeWait, func() { p.world.end(lost) })
	}
	return true
}

// barredHere returns why a collective of c cannot go on, nil if it can.
func (c *Comm) barredHere() error {
	if !c.world.anyFailure.Load() {
		return nil
	}
	return c.barredNow(NoPeer, true)
}

// tellOthers sends a frame to those of some ranks of the run that are not lost.
func (p *proc) tellOthers(ranks []int, f fabric.Frame) {
	t := p.failure.Load()
	for _, r := range ranks {
		if r != p.rank && t.lostRank(r) == nil {
			_ = p.frame(r, f)
		}
	}
}

// tellRemote sends a frame to those ranks of other processes that are not lost.
func (p *proc) tellRemote(f fabric.Frame) {
	p.tellOthers(slices.DeleteFunc(allRanks(p.world.size), func(r int) bool { return p.world.at(r) != nil }), f)
}
