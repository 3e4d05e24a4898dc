// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"weft/comm/internal/ballot"
	"weft/comm/internal/coll"
	"weft/internal/fabric"
)

// ballots are the agreements of a rank. Frames are sent, and requests completed, without the lock.
type ballots struct {
	mu      sync.Mutex
	circles map[uint64]*circle // guarded by mu: by context
	dead    error              // guarded by mu: why there are no more
}

// circle are the agreements of one communicator.
type circle struct {
	open map[uint32]*agreement
	// done is the last agreement that was decided here. What came before it is of no interest to anybody: who takes part in an agreement
	// has the result of the one before, or does not want it any more.
	done uint32
}

// agreement is one of them, at this rank.
type agreement struct {
	c        *Comm // nil: this rank has not come yet
	b        *ballot.Ballot
	early    []earlyMsg // for who has not come yet
	complete func(error)
	told     bool // complete was called, or will be

	number uint64 // among the communicator's collectives; 0: it is not one of them
}

// earlyMsg is a message for an agreement that this rank has not come to.
type earlyMsg struct {
	src  int // in the run
	head [fabric.HeadWords]uint64
	data []byte
}

// at returns an agreement, and makes it if it is not of the past; nil if it is.
// +checklocks:s.mu
func (s *ballots) at(ctx uint64, seq uint32) *agreement {
	k := s.circles[ctx]
	if k == nil {
		if s.circles == nil {
			s.circles = make(map[uint64]*circle)
		}
		k = &circle{open: make(map[uint32]*agreement)}
		s.circles[ctx] = k
	}
	a := k.open[seq]
	if a == nil && seq > k.done {
		a = &agreement{}
		k.open[seq] = a
	}
	return a
}

// settle forgets what an agreement that is now decided makes useless. It returns what tells who waits, or nil.
// +checklocks:s.mu
func (s *ballots) settle(ctx uint64, seq uint32, a *agreement) func(error) {
	if a.b.Out == nil || a.told {
		return nil
	}
	a.told = true
	k := s.circles[ctx]
	k.done = seq // what was before is not open any more
	var passed []func(error)
	for old, o := range k.open {
		if old < seq {
			delete(k.open, old)
			if o.c != nil && !o.told {
				o.told = true
				passed = append(passed, o.complete)
			}
		}
	}
	return func(err error) {
		for _, complete := range passed {
			complete(errPassed)
		}
		a.complete(err)
	}
}

// errPassed is the error of an agreement that the others have given up waiting for.
var errPassed = fmt.Errorf("%w: a later agreement was decided before this one", ErrMismatch)

// agree takes part in the next agreement of c. The vote's sets are filled in. The result is in the agreement's b.out when the request is
// complete.
func (c *Comm) agree(kind ballot.Kind, flags uint64) (*agreement, *Request) {
	p := c.proc
	s := &p.ballots
	r, complete := NewRequest()
	seq := c.voteSeq.Add(1)
	number, missed := c.numberVote(kind)
	s.mu.Lock()
	if s.dead != nil {
		err := s.dead
		s.mu.Unlock()
		complete(err)
		return nil, r
	}
	a := s.at(c.ctx, seq)
	if a == nil { // another goroutine has come to the next one in its place
		s.mu.Unlock()
		complete(errPassed)
		return nil, r
	}
	v := ballot.NewVote(kind, c.size)
	v.Flags = flags
	gone := ballot.NewMembers(c.size)
	// Whoever is lost after this was read is told to the ballot when the lock is free.
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
	if kind == ballot.VoteShrink {
		v.Ctx = c.world.newContext(p)
	}
	a.c, a.complete, a.number, a.told = c, complete, number, missed != nil
	var out []ballot.Message
	a.b, out = ballot.New(c.size, c.rank, gone, v)
	var bad []earlyMsg
	for _, e := range a.early {
		from := c.memberRank(e.src)
		m, err := unpackBallot(c.size, &e.head, e.data)
		switch {
		case err != nil || from < 0:
			bad = append(bad, e)
		case !gone.Has(from):
			out = append(out, a.b.Receive(from, &m)...)
		}
	}
	a.early = nil
	done := s.settle(c.ctx, seq, a)
	s.mu.Unlock()
	a.send(seq, out)
	if done != nil {
		done(nil)
	}
	for _, e := range bad {
		p.gone(e.src, fmt.Errorf("%w: it sends to an agreement of others", errFrame))
	}
	switch {
	case missed != nil:
		complete(missed)
	case number != 0 && !r.done():
		if d := c.disagreement(p.trouble.Load()); d != nil {
			s.disagreed(c.ctx, d) // it may have come before the agreement was open
		}
		c.world.late.need()
	}
	return a, r
}

// numberVote returns the number that an agreement has among the collectives of c. It has none, 0,
// where something has gone wrong with c that ranks may hear of at different times: a rank that
// makes no collectives any more cannot disagree. missed is what other ranks have been told, in the
// place of this agreement, and the program of this rank has not.
func (c *Comm) numberVote(kind ballot.Kind) (number uint64, missed error) {
	if kind == ballot.VoteLeave {
		return 0, nil
	}
	if c.barredHere() == nil {
		k := coll.Agree
		if kind == ballot.VoteShrink {
			k = coll.Shrink
		}
		return c.hist.note(k), nil
	}
	if d := c.disagreement(c.proc.trouble.Load()); d != nil && d.from != 0 && !d.heard.Load() {
		return 0, d.err
	}
	return 0, nil
}

// disagreed ends the waiting for agreements that not all ranks have come to: some are in
// collectives instead. Their votes stay, as where a context has ended the waiting.
func (s *ballots) disagreed(ctx uint64, d *disagreement) {
	if d.from > 0 {
		s.end(ctx, d.from, d.err)
	}
}

// waits calls f for each agreement that is among the collectives of its communicator and waits for
// a rank to come to it.
func (s *ballots) waits(f func(c *Comm, seq uint32, r int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.circles {
		for seq, a := range k.open {
			if a.c == nil || a.told || a.number == 0 {
				continue
			}
			if r := a.b.Awaits(); r >= 0 {
				f(a.c, seq, r)
			}
		}
	}
}

// voted is the arrival of a message of an agreement.
func (p *proc) voted(src int, f *fabric.Frame) error {
	ctx, seq := f.Head[0], uint32(f.Head[1]>>32)
	s := &p.ballots
	s.mu.Lock()
	if s.dead != nil {
		s.mu.Unlock()
		return nil
	}
	a := s.at(ctx, seq)
	switch {
	case a == nil:
		s.mu.Unlock()
		return nil
	case a.c == nil:
		defer s.mu.Unlock()
		if len(a.early) >= 4*p.world.size {
			return fmt.Errorf("it sends %d messages to an agreement that this rank has not come to", len(a.early))
		}
		a.early = append(a.early, earlyMsg{src, f.Head, append([]byte(nil), f.Data...)})
		return nil
	}
	from := a.c.memberRank(src)
	m, err := unpackBallot(a.c.size, &f.Head, f.Data)
	if err == nil && from < 0 {
		err = fmt.Errorf("it sends to an agreement of others")
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	var out []ballot.Message
	if !a.b.Gone.Has(from) {
		out = a.b.Receive(from, &m)
	}
	done := s.settle(ctx, seq, a)
	s.mu.Unlock()
	a.send(seq, out)
	if done != nil {
		done(nil)
	}
	return nil
}

// lose tells all agreements that rank r of the run is lost.
func (s *ballots) lose(p *proc, r int) {
	type step struct {
		a    *agreement
		seq  uint32
		out  []ballot.Message
		done func(error)
	}
	var steps []step
	s.mu.Lock()
	for ctx, k := range s.circles {
		for seq, a := range k.open {
			if a.c == nil {
				continue
			}
			if m := a.c.memberRank(r); m >= 0 {
				out := a.b.Lose(m)
				steps = append(steps, step{a, seq, out, s.settle(ctx, seq, a)})
			}
		}
	}
	s.mu.Unlock()
	for _, x := range steps {
		x.a.send(x.seq, x.out)
		if x.done != nil {
			x.done(nil)
		}
	}
}

// finish ends the agreements of one context as if they were decided.
func (s *ballots) finish(ctx uint64, err error) { s.end(ctx, 0, err) }

// end ends the waiting for the agreements of a context, from a number on.
func (s *ballots) end(ctx, from uint64, err error) {
	var all []func(error)
	s.mu.Lock()
	if k := s.circles[ctx]; k != nil {
		for _, a := range k.open {
			if a.c != nil && !a.told && a.number >= from {
				a.told = true
				all = append(all, a.complete)
			}
		}
	}
	s.mu.Unlock()
	for _, complete := range all {
		complete(err)
	}
}

// kill ends all agreements.
func (s *ballots) kill(err error) {
	s.mu.Lock()
	s.dead = err
	contexts := slices.Collect(maps.Keys(s.circles))
	s.mu.Unlock()
	for _, ctx := range contexts {
		s.finish(ctx, err)
	}
}

// send sends messages of an agreement. A rank that does not get one is lost, which will be heard of.
func (a *agreement) send(seq uint32, out []ballot.Message) {
	c := a.c
	for i := range out {
		m := &out[i]
		_ = c.proc.frame(c.worldRank(m.To), packBallot(m, c.ctx, seq))
	}
}

// A message of an agreement as a frame: context; number of the agreement, by; –, kind and phase; flags; the vote's context. The data is
// the vote's kind, whether it is decided, and its two sets.

func packBallot(m *ballot.Message, ctx uint64, seq uint32) fabric.Frame {
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{ctx, uint64(seq)<<32 | uint64(uint32(m.By)), 0, agreeing.word() | uint64(m.Phase), m.Vote.Flags, m.Vote.Ctx}}
	decided := byte(0)
	if m.Decided {
		decided = 1
	}
	f.Data = append(f.Data, byte(m.Vote.Kind), decided)
	f.Data = append(f.Data, m.Vote.Lost...)
	f.Data = append(f.Data, m.Vote.Acked...)
	return f
}

func unpackBallot(n int, head *[fabric.HeadWords]uint64, data []byte) (m ballot.Message, err error) {
	m = ballot.Message{Phase: ballot.Phase(head[3]), By: int(int32(head[1]))}
	set := ballot.MembersBytes(n)
	switch {
	case m.Phase < 1 || m.Phase > ballot.LastPhase:
		return m, fmt.Errorf("it sends a message of the unknown phase %d of an agreement", m.Phase)
	case m.By < -1 || m.By >= n:
		return m, fmt.Errorf("it sends a vote of rank %d to an agreement of %d", m.By, n)
	case len(data) != 2+2*set:
		return m, fmt.Errorf("it sends a vote of %d bytes, not %d", len(data), 2+2*set)
	case data[0] < 1 || ballot.Kind(data[0]) > ballot.LastVote || data[1] > 1:
		return m, fmt.Errorf("it sends a vote of the unknown kind %d", data[0])
	}
	if ballot.Kind(data[0]) == ballot.VoteShrink && (head[5]&1 != 0 || head[5]>>32 == 0) {
		return m, fmt.Errorf("it sends a vote for the communicator %#x, which is none", head[5])
	}
	m.Decided = data[1] == 1
	m.Vote = &ballot.Vote{Kind: ballot.Kind(data[0]), Flags: head[4], Ctx: head[5]}
	m.Vote.Lost = append(ballot.Members(nil), data[2:2+set]...)
	m.Vote.Acked = append(ballot.Members(nil), data[2+set:]...)
	return m, nil
}

// The group of a communicator, as data of a frame; none means all ranks.

func packGroup(group []int32) []byte {
	var b []byte
	for _, r := range group {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func unpackGroup(b []byte, size int) ([]int, error) {
	var group []int
	if len(b) == 0 {
		for r := range size {
			group = append(group, r)
		}
		return group, nil
	}
	if len(b)%4 != 0 || len(b)/4 > size {
		return nil, fmt.Errorf("it sends a group in %d bytes", len(b))
	}
	for ; len(b) > 0; b = b[4:] {
		r := binary.LittleEndian.Uint32(b)
		if uint64(r) >= uint64(size) {
			return nil, fmt.Errorf("it sends a group with rank %d", r)
		}
		group = append(group, int(r))
	}
	return group, nil
}
