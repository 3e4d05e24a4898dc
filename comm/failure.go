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
// which it learned of them. A later result begins with all of an earlier one. Other ranks may know
// more or less; Agree and Shrink make this knowledge equal.
func (c *Comm) Failed() []int {
	t := c.proc.failure.Load()
	if t == nil {
		return nil
	}
	return append([]int(nil), c.failures(t).ranks...)
}

// AckFailed acknowledges the first n ranks of Failed. Receives from AnySource that begin from now
// on wait for the other members, and fail again when a further member is lost. Agree does not
// report acknowledged ranks. AckFailed returns how many are acknowledged, which never shrinks.
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

// Revoke makes the communicator useless at all its ranks: pending operations on it fail with
// ErrRevoked, and so do later ones, except Agree and Shrink. It is not collective: a rank that has
// seen a failure calls it, to get the others out of calls in which they wait for ranks that will
// not take part. It does not wait. Communicators made of this one by Dup and Split are revoked with
// it: a rank in which Dup has failed could not revoke the communicator that another rank has got.
// Communicators made by Shrink are not.
func (c *Comm) Revoke() {
	ranks := make([]int, c.size)
	for r := range ranks {
		ranks[r] = c.worldRank(r)
	}
	// A disagreement is told before the revocation that it leads to: otherwise the programs of
	// other ranks would not hear of it.
	if d := c.disagreement(c.proc.failure.Load()); d != nil {
		c.proc.spreadDisagreement(c.hist.c.ctx, d, ranks)
	}
	c.proc.spreadRevocation(c.ctx, ranks, wire.PackGroup(c.group))
}

// Revoked reports whether the communicator was revoked, as far as the caller knows.
func (c *Comm) Revoked() bool { return c.revokedIn(c.proc.failure.Load()) }

// Agree returns the same at all ranks that live: the bitwise and of the flags of all, and
// ErrPeerLost if a member is lost that not all have acknowledged (see AckFailed). It works whatever
// dies, and also on a revoked communicator, but it waits for each rank that lives to call it. No
// rank gets another result than one that has returned, even if that rank has died since.
// Collective. When ctx ends, Agree stops waiting; the agreement goes on.
//
// Errors: ErrPeerLost (the flags are valid), ErrMismatch (others call Shrink, or another
// collective; the flags still count in the agreement of others), ErrAborted, the context's.
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
// rank that dies meanwhile may be in it; operations with that rank fail then. It also works on a
// revoked communicator. All ranks that live must call it.
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
	n.joinMemory(-1)
	c.proc.addComm(n)
	return n, nil
}

// errDecided is the cause of a loss of which this rank learns by the result of an agreement.
var errDecided = errors.New("the ranks have agreed on its loss")

// decide takes part in an agreement and waits for its result.
func (c *Comm) decide(ctx context.Context, op string, kind consensus.Kind, flags uint64) (*consensus.Value, error) {
	a, r := c.agree(kind, flags)
	if _, err := r.Wait(ctx); err != nil {
		if typed, ok := errors.AsType[*Error](err); ok && typed.Op == "wait" {
			err = typed.Err
		}
		if d := c.disagreement(c.proc.failure.Load()); d != nil && errors.Is(err, d.err) {
			d.reported.Store(true)
		}
		return nil, c.fail(op, NoPeer, NoPeer, err)
	}
	v := a.Instance.Out
	for r := range c.size { // Failed must include at least what was decided
		if w := c.worldRank(r); v.Lost.Has(r) && c.proc.failure.Load().lostRank(w) == nil {
			c.proc.reportLoss(w, errDecided)
		}
	}
	if v.Kind != kind {
		return nil, c.fail(op, NoPeer, NoPeer, fmt.Errorf("%w: some ranks are in Agree and some in Shrink", ErrMismatch))
	}
	return v, nil
}

// spreadRevocation revokes a communicator at this rank, and at the others of its group. Each rank
// that hears of it for the first time tells all others, so that all ranks that live hear of it, or
// none. group is ranks as a frame has them.
func (p *proc) spreadRevocation(ctx uint64, ranks []int, group []byte) {
	if !p.revoke(ctx) {
		return
	}
	p.world.segments.Progress()
	p.tellOthers(ranks, fabric.Frame{Head: [fabric.HeadWords]uint64{ctx, 0, 0, wire.Revoking.Word()}, Data: group})
}

// lossGrace delays the effect of a loss that a fabric reports. A rank that ends the run tells the
// others and closes its endpoint; a rank without a connection to it may see a loss before it reads
// why.
const lossGrace = 100 * time.Millisecond

// Lost is the fabric's report that a rank of another process is gone.
func (p *proc) Lost(src int, err error) {
	if p.world.survive {
		p.reportLoss(src, err)
		return
	}
	// no effect if the run has ended
	time.AfterFunc(lossGrace, func() { p.reportLoss(src, err) })
}

// reportLoss handles a rank of another process that is gone, or breaks the protocol.
func (p *proc) reportLoss(src int, err error) {
	if known, ok := errors.AsType[*LostError](err); !ok || known.Rank != src {
		err = &LostError{Rank: src, Err: err}
	}
	p.world.handleLoss(p, src, err)
}

// handleLoss ends the run because of the loss of a rank or, if the run survives, marks the rank
// lost. p is the rank that has learned of it.
func (w *world) handleLoss(p *proc, r int, err error) {
	if w.at(r) == nil && p.failure.Load().lostRank(r) == nil {
		w.blameSuspect(p, err)
	}
	switch {
	case !w.survive:
		w.end(&RankError{Rank: r, Err: err})
	case w.at(r) != nil:
		w.markDead(r, err)
	case p.markLost(r, err):
		w.segments.Progress()
		w.cfg.Logger.Warn("rank lost", "rank", r, "at", p.rank, "cause", err)
		// Another rank may not be able to notice the loss by itself, or may not have noticed it
		// yet.
		p.tellOthers(allRanks(w.size), failureNotice(r, err))
	}
}

// blameSuspect tells the launcher of a loss before any operation here can fail with it, where the
// run survives. Where it does not, the end of the run tells the launcher.
func (w *world) blameSuspect(p *proc, err error) {
	if t := p.failure.Load(); w.survive && w.blame != nil && (t == nil || t.dead == nil) {
		w.blame(err, false)
	}
}

// failed handles the end of a rank's body with an error.
func (w *world) failed(r int, err error) {
	if w.survive {
		w.markDead(r, err)
		return
	}
	w.end(err)
}

// markDead marks a rank of this process dead, where the others survive that: its operations fail,
// and the others are told.
func (w *world) markDead(r int, err error) {
	p := w.at(r)
	if w.blame != nil {
		w.blame(err, true)
	}
	if !p.kill(&abortError{cause: err}) {
		return
	}
	defer w.segments.Progress() // once, for all ranks of this process
	w.deaths.add(r, err)
	w.cfg.Logger.Warn("rank dies", "rank", r, "cause", err)
	lives := false
	for _, q := range w.own {
		if q != p && q.markLost(r, &LostError{Rank: r, Err: err}) {
			lives = true
		}
	}
	if w.multiProcess {
		p.tellRemote(failureNotice(r, err))
		if !lives {
			w.endHere(err, false)
		}
	}
}

// failureNotice returns the frame that tells that a rank is lost.
func failureNotice(r int, err error) fabric.Frame {
	if lost, ok := errors.AsType[*LostError](err); ok && lost.Rank == r {
		err = lost.Err
	}
	text := err.Error()
	return fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(r), 0, 0, wire.FailureNotice.Word()}, Data: []byte(text[:min(len(text), maxReason)])}
}

// receiveFailureNotice handles a failure notice from rank src. If it is about this rank itself,
// this rank ends: the others drop all that it sends from now on.
func (p *proc) receiveFailureNotice(src int, f *fabric.Frame) error {
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
	p.reportLoss(r, why)
	return nil
}

// Abort ends the run for all ranks because of err, as if this rank's body had returned it
// (MPI_Abort): pending operations complete with ErrAborted, later ones fail with it, and Run
// returns err as a *RankError when the bodies have returned. The first reason counts. Any goroutine
// may call it.
func (c *Comm) Abort(err error) {
	if err == nil {
		err = errors.New("aborted without a reason")
	}
	c.world.end(&RankError{Rank: c.proc.rank, Err: err})
}

// AtEnd calls f, on a goroutine of its own, when the run aborts or ends, as [context.AfterFunc] of
// Context does; but Run returns only when f has returned. It lets packages that build on
// communicators release what the program has not. stop is that of AfterFunc. f must not wait for
// Run, and finds all operations complete or failing.
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

// wait returns when no function is to be called or running. Precondition: the run has ended.
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

// errPassed is the error of an agreement that the others have stopped waiting for.
var errPassed = fmt.Errorf("%w: %w", ErrMismatch, consensus.ErrPassed)

// agree takes part in the next agreement of c. It fills in the sets of this rank's value. The
// result is in the agreement's consensus instance when the request is complete.
func (c *Comm) agree(kind consensus.Kind, flags uint64) (*consensus.Agreement, *Request) {
	p := c.proc
	r, complete := NewRequest()
	seq := c.agreeSeq.Add(1)
	number, missed := c.numberAgreement(kind)
	value := func() (gone consensus.Members, v *consensus.Value) {
		v, gone = consensus.NewValue(kind, c.size), consensus.NewMembers(c.size)
		v.Flags = flags
		if t := p.failure.Load(); t != nil {
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
	a, bad := p.agreements.Begin(c.ctx, seq, consensus.Agreement{Group: (*agreementGroup)(c), Number: number}, c.size, c.rank, value, missed != nil, func(err error) {
		if err == consensus.ErrPassed {
			err = errPassed
		}
		complete(err)
	})
	for _, l := range bad {
		p.reportLoss(l.Src, fmt.Errorf("%w: %w", errFrame, consensus.ErrNoMember))
	}
	switch {
	case a == nil:
	case missed != nil:
		complete(missed)
	case number != 0 && !r.done():
		if d := c.disagreement(p.failure.Load()); d != nil {
			// d may have come before the agreement was begun
			p.endAgreements(c.ctx, d)
		}
		c.world.stale.schedule()
	}
	return a, r
}

// agreementGroup is a communicator as its agreements see it.
type agreementGroup Comm

func (c *agreementGroup) Member(r int) int { return (*Comm)(c).memberRank(r) }

func (c *agreementGroup) Send(seq uint32, m *consensus.Message) {
	_ = c.proc.frame((*Comm)(c).worldRank(m.To), wire.PackAgreement(m, c.ctx, seq))
}

// numberAgreement returns the number that an agreement has among the collectives of c. It is 0 if c
// has a failure of which ranks may hear at different times: a rank that makes no collectives any
// more cannot disagree. missed is a disagreement that other ranks report in place of this
// agreement, and that the program of this rank has not got yet.
func (c *Comm) numberAgreement(kind consensus.Kind) (number uint64, missed error) {
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
	if d := c.disagreement(c.proc.failure.Load()); d != nil && d.from != 0 && !d.reported.Load() {
		return 0, d.err
	}
	return 0, nil
}

// receiveAgreement handles a message of an agreement.
func (p *proc) receiveAgreement(src int, f *fabric.Frame) error {
	head, data := f.Head, append([]byte(nil), f.Data...) // f is valid during this call only
	return p.agreements.Arrive(f.Head[0], uint32(f.Head[1]>>32), 4*p.world.size, consensus.RawMessage{Src: src, Read: func(n int) (consensus.Message, error) {
		return wire.UnpackAgreement(n, &head, data)
	}})
}
