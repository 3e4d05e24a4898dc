// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weft/comm/internal/coll"
	"weft/comm/internal/consensus"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// Failed returns the ranks of this communicator that the caller knows to be lost, in the order in
// which it learned of them. What was returned once stays a prefix of what is returned later. Other
// ranks may know more or less; Agree and Shrink make it equal.
func (c *Comm) Failed() []int {
	t := c.proc.trouble.Load()
	if t == nil {
		return nil
	}
	return append([]int(nil), c.failures(t).ranks...)
}

// AckFailed says that the caller has taken notice of the first n of Failed. Receives from AnySource
// that are begun from now on wait for the others, and fail again when a further member is lost;
// Agree does not report these n. It returns how many are acknowledged, which is not less than
// before.
func (c *Comm) AckFailed(n int) int {
	n = min(n, len(c.Failed()))
	for {
		old := c.acked.Load()
		if int(old) >= n {
			return int(old)
		}
		if c.acked.CompareAndSwap(old, int32(n)) {
			return n
		}
	}
}

// Revoke makes the communicator useless at all its ranks: what is pending on it fails with
// ErrRevoked, and so does what is begun later, except Agree and Shrink. It is not collective: one
// rank that has seen a failure calls it, to get the others out of calls in which they wait for
// ranks that will not come any more. It does not wait. Communicators made of this one by Dup and
// Split are revoked with it, since a rank in which Dup has failed could not revoke the one that
// another has got. Those made by Shrink are not.
func (c *Comm) Revoke() {
	ranks := make([]int, c.size)
	for r := range ranks {
		ranks[r] = c.worldRank(r)
	}
	// The others hear of a disagreement before the revocation that it leads to, or their programs
	// would not be told.
	if d := c.disagreement(c.proc.trouble.Load()); d != nil {
		c.proc.spreadDisagreement(c.hist.c.ctx, d, ranks)
	}
	c.proc.spreadRevocation(c.ctx, ranks, wire.PackGroup(c.group))
}

// Revoked reports whether the communicator was revoked, as far as the caller knows.
func (c *Comm) Revoked() bool { return c.revokedIn(c.proc.trouble.Load()) }

// Agree returns, at all ranks that live, the same: the bitwise and of the flags of all, and
// ErrPeerLost if a member is lost that not all have acknowledged (see AckFailed). It works whatever
// dies and whether the communicator is revoked or not, but it waits for each rank that lives to
// call it. What one rank has returned, no other rank will find different, even if the first has
// died since. Collective; when ctx ends, only the waiting does.
//
// Errors: ErrPeerLost (the flags are valid), ErrMismatch (others call Shrink, or another
// collective; the flags count nevertheless, where the others come to an agreement later),
// ErrAborted, the context's.
func (c *Comm) Agree(ctx context.Context, flags uint64) (uint64, error) {
	v, err := c.decide(ctx, "agree", consensus.Agree, flags)
	if err != nil {
		return 0, err
	}
	if !v.Lost.Within(v.Acked) {
		for r := range c.size {
			if v.Lost.Has(r) && !v.Acked.Has(r) {
				return v.Flags, c.fail("agree", r, NoPeer, fmt.Errorf("%w: rank %d", ErrPeerLost, r))
			}
		}
	}
	return v.Flags, nil
}

// Shrink returns a communicator of the ranks that live, in their order: the same at all of them. A
// rank that dies meanwhile may be in it or not; if it is, operations with it fail. It works also on
// a revoked communicator, and is to be called by all ranks that live.
//
// Errors: ErrMismatch (others call Agree, or another collective), ErrPeerLost (the others take this
// rank for lost), ErrAborted, the context's.
func (c *Comm) Shrink(ctx context.Context) (*Comm, error) {
	v, err := c.decide(ctx, "shrink", consensus.Shrink, 0)
	if err != nil {
		return nil, err
	}
	if v.Lost.Has(c.rank) {
		return nil, c.fail("shrink", NoPeer, NoPeer, fmt.Errorf("%w: the others take this rank for lost", ErrPeerLost))
	}
	var alive []int
	for r := range c.size {
		if !v.Lost.Has(r) {
			alive = append(alive, r)
		}
	}
	n := c.sub(alive, v.Ctx)
	n.sit(-1)
	c.proc.known(n)
	return n, nil
}

// errDecided is how a rank learns of a loss that an agreement of others has found.
var errDecided = errors.New("others have found so in an agreement")

// decide is an agreement, waited for.
func (c *Comm) decide(ctx context.Context, op string, kind consensus.Kind, flags uint64) (*consensus.Value, error) {
	a, r := c.agree(kind, flags)
	if _, err := r.Wait(ctx); err != nil {
		if typed, ok := errors.AsType[*Error](err); ok && typed.Op == "wait" {
			err = typed.Err
		}
		if d := c.disagreement(c.proc.trouble.Load()); d != nil && errors.Is(err, d.err) {
			d.heard.Store(true)
		}
		return nil, c.fail(op, NoPeer, NoPeer, err)
	}
	v := a.Instance.Out
	for r := range c.size { // Failed has at all what was decided
		if w := c.worldRank(r); v.Lost.Has(r) && c.proc.trouble.Load().lostRank(w) == nil {
			c.proc.gone(w, errDecided)
		}
	}
	if v.Kind != kind {
		return nil, c.fail(op, NoPeer, NoPeer, fmt.Errorf("%w: some ranks are in Agree and some in Shrink", ErrMismatch))
	}
	return v, nil
}

// spreadRevocation revokes a communicator at this rank, and at the others of its group. Each rank
// that hears of it for the first time tells all others, so that either all ranks that live hear of
// it or none. group is these ranks as a frame has them.
func (p *proc) spreadRevocation(ctx uint64, ranks []int, group []byte) {
	if !p.revoke(ctx) {
		return
	}
	p.world.stages.Progress()
	p.tellOthers(ranks, fabric.Frame{Head: [fabric.HeadWords]uint64{ctx, 0, 0, wire.Revoking.Word()}, Data: group})
}

// lossGrace is how long the loss of a rank that a fabric reports may stay without consequence: a
// rank that ends the run tells so, and closes its end, and to those who were not connected with it
// the end may look like a loss, before they are told.
const lossGrace = 100 * time.Millisecond

// Lost is what a fabric says of a rank of another process that is gone.
func (p *proc) Lost(src int, err error) {
	if p.world.survive {
		p.gone(src, err)
		return
	}
	// which does nothing if the run has ended
	time.AfterFunc(lossGrace, func() { p.gone(src, err) })
}

// gone says that a rank of another process is gone, or cannot be trusted any more.
func (p *proc) gone(src int, err error) {
	if known, ok := errors.AsType[*LostError](err); !ok || known.Rank != src {
		err = &LostError{Rank: src, Err: err}
	}
	p.world.lost(p, src, err)
}

// lost ends the run because of the loss of a rank, or has the run survive it. p has heard of it.
func (w *world) lost(p *proc, r int, err error) {
	if w.at(r) == nil && p.trouble.Load().lostRank(r) == nil {
		w.suspects(p, err)
	}
	switch {
	case !w.survive:
		w.end(&RankError{Rank: r, Err: err})
	case w.at(r) != nil:
		w.die(r, err)
	case p.lose(r, err):
		w.stages.Progress()
		w.cfg.Logger.Warn("rank lost", "rank", r, "at", p.rank, "cause", err)
		// Another rank may have no way of its own to notice it, or may not have noticed yet.
		p.tellOthers(allRanks(w.size), obituary(r, err))
	}
}

// suspects is called before anybody here can fail with the loss of another rank, where the run
// survives that. The end of the run tells by itself.
func (w *world) suspects(p *proc, err error) {
	if t := p.trouble.Load(); w.survive && w.blame != nil && (t == nil || t.dead == nil) {
		w.blame(err, false)
	}
}

// failed is the end of a rank's body with an error.
func (w *world) failed(r int, err error) {
	if w.survive {
		w.die(r, err)
		return
	}
	w.end(err)
}

// die is the death of a rank of this process, which the others survive: its operations fail, and
// the others hear of it.
func (w *world) die(r int, err error) {
	p := w.at(r)
	if w.blame != nil {
		w.blame(err, true)
	}
	if !p.kill(&abortError{cause: err}) {
		return
	}
	defer w.stages.Progress() // once, for all ranks of this process
	w.deaths.add(r, err)
	w.cfg.Logger.Warn("rank dies", "rank", r, "cause", err)
	lives := false
	for _, q := range w.own {
		if q != p && q.lose(r, &LostError{Rank: r, Err: err}) {
			lives = true
		}
	}
	if w.apart {
		p.tellFar(obituary(r, err))
		if !lives {
			w.endHere(err, false)
		}
	}
}

// obituary is the frame that says that a rank is lost.
func obituary(r int, err error) fabric.Frame {
	if lost, ok := errors.AsType[*LostError](err); ok && lost.Rank == r {
		err = lost.Err
	}
	text := err.Error()
	return fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(r), 0, 0, wire.FailureNotice.Word()}, Data: []byte(text[:min(len(text), maxReason)])}
}

// mourned is the arrival of an obituary from rank src. Of a rank that hears its own, the others
// take nothing any more.
func (p *proc) mourned(src int, f *fabric.Frame) error {
	if f.Head[0] >= uint64(p.world.size) {
		return fmt.Errorf("it says that rank %d is lost", f.Head[0])
	}
	if !p.world.survive {
		return fmt.Errorf("it survives the loss of ranks, which this one does not; all must be started alike (%s)", EnvSurvive)
	}
	r := int(f.Head[0])
	var why error = &RemoteError{Text: string(f.Data[:min(len(f.Data), maxReason)])}
	if r == p.rank {
		why = fmt.Errorf("%w: rank %d takes this rank for lost: %w", ErrPeerLost, src, why)
	}
	p.gone(r, why)
	return nil
}

// Abort ends the run for all ranks because of err, as if this rank's body had returned it
// (MPI_Abort): pending operations complete with ErrAborted, later ones fail with it, and Run
// returns err as a *RankError when the bodies have come to their end. The first reason counts. Any
// goroutine may call it.
func (c *Comm) Abort(err error) {
	if err == nil {
		err = errors.New("aborted without a reason")
	}
	c.world.end(&RankError{Rank: c.proc.rank, Err: err})
}

// AtEnd has f called, on a goroutine of its own, when the run aborts or ends, as
// [context.AfterFunc] of Context does; but Run returns only when f has. It is for packages that
// build on communicators, and give back what the program has not. stop is that of AfterFunc. f must
// not wait for Run, and finds all operations complete or failing.
func (c *Comm) AtEnd(f func()) (stop func() bool) {
	e := &c.world.ends
	e.add(1)
	unhook := context.AfterFunc(c.world.ctx, func() {
		defer e.add(-1)
		f()
	})
	return func() bool {
		stopped := unhook()
		if stopped {
			e.add(-1)
		}
		return stopped
	}
}

func (e *ends) add(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count += n
	if e.count == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// wait returns when none is to be called or under way. Precondition: the run has ended.
func (e *ends) wait() {
	e.mu.Lock()
	if e.count == 0 {
		e.mu.Unlock()
		return
	}
	none := make(chan struct{})
	e.none = none
	e.mu.Unlock()
	<-none
}

// errPassed is the error of an agreement that the others have given up waiting for.
var errPassed = fmt.Errorf("%w: %w", ErrMismatch, consensus.ErrPassed)

// agree takes part in the next agreement of c. The vote's sets are filled in. The result is in the
// agreement's ballot when the request is complete.
func (c *Comm) agree(kind consensus.Kind, flags uint64) (*consensus.Agreement, *Request) {
	p := c.proc
	r, complete := NewRequest()
	seq := c.voteSeq.Add(1)
	number, missed := c.numberVote(kind)
	vote := func() (gone consensus.Members, v *consensus.Value) {
		v, gone = consensus.NewValue(kind, c.size), consensus.NewMembers(c.size)
		v.Flags = flags
		if t := p.trouble.Load(); t != nil {
			acked := int(c.acked.Load())
			for i, m := range c.failures(t).ranks {
				if m == c.rank {
					continue
				}
				v.Lost.Add(m)
				gone.Add(m)
				if i < acked {
					v.Acked.Add(m)
				}
			}
		}
		if kind == consensus.Shrink {
			v.Ctx = p.newContext()
		}
		return gone, v
	}
	a, bad := p.ballots.Begin(c.ctx, seq, consensus.Agreement{Group: (*voters)(c), Number: number}, c.size, c.rank, vote, missed != nil, func(err error) {
		if err == consensus.ErrPassed {
			err = errPassed
		}
		complete(err)
	})
	for _, l := range bad {
		p.gone(l.Src, fmt.Errorf("%w: %w", errFrame, consensus.ErrNoMember))
	}
	switch {
	case a == nil:
	case missed != nil:
		complete(missed)
	case number != 0 && !r.done():
		if d := c.disagreement(p.trouble.Load()); d != nil {
			// it may have come before the agreement was open
			p.endBallots(c.ctx, d)
		}
		c.world.late.need()
	}
	return a, r
}

// voters is a communicator, as its agreements see it.
type voters Comm

func (c *voters) Member(r int) int { return (*Comm)(c).memberRank(r) }

func (c *voters) Send(seq uint32, m *consensus.Message) {
	_ = c.proc.frame((*Comm)(c).worldRank(m.To), wire.PackAgreement(m, c.ctx, seq))
}

// numberVote returns the number that an agreement has among the collectives of c. It has none, 0,
// where something has gone wrong with c that ranks may hear of at different times: a rank that
// makes no collectives any more cannot disagree. missed is what other ranks have been told, in the
// place of this agreement, and the program of this rank has not.
func (c *Comm) numberVote(kind consensus.Kind) (number uint64, missed error) {
	if kind == consensus.Leave {
		return 0, nil
	}
	if c.barredHere() == nil {
		k := coll.Agree
		if kind == consensus.Shrink {
			k = coll.Shrink
		}
		return c.hist.note(k), nil
	}
	if d := c.disagreement(c.proc.trouble.Load()); d != nil && d.from != 0 && !d.heard.Load() {
		return 0, d.err
	}
	return 0, nil
}

// voted is the arrival of a message of an agreement.
func (p *proc) voted(src int, f *fabric.Frame) error {
	head, data := f.Head, append([]byte(nil), f.Data...) // of this call only
	return p.ballots.Arrive(f.Head[0], uint32(f.Head[1]>>32), 4*p.world.size, consensus.RawMessage{Src: src, Read: func(n int) (consensus.Message, error) {
		return wire.UnpackAgreement(n, &head, data)
	}})
}
