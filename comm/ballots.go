// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/ballot"
	"weft/comm/internal/coll"
	"weft/internal/fabric"
)

// errPassed is the error of an agreement that the others have given up waiting for.
var errPassed = fmt.Errorf("%w: %w", ErrMismatch, ballot.ErrPassed)

// agree takes part in the next agreement of c. The vote's sets are filled in. The result is in the agreement's ballot when the
// request is complete.
func (c *Comm) agree(kind ballot.Kind, flags uint64) (*ballot.Agreement, *Request) {
	p := c.proc
	r, complete := NewRequest()
	seq := c.voteSeq.Add(1)
	number, missed := c.numberVote(kind)
	vote := func() (gone ballot.Members, v *ballot.Vote) {
		v, gone = ballot.NewVote(kind, c.size), ballot.NewMembers(c.size)
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
		if kind == ballot.VoteShrink {
			v.Ctx = c.world.newContext(p)
		}
		return gone, v
	}
	a, bad := p.ballots.Begin(c.ctx, seq, ballot.Agreement{Group: (*voters)(c), Number: number}, c.size, c.rank, vote, missed != nil, func(err error) {
		if err == ballot.ErrPassed {
			err = errPassed
		}
		complete(err)
	})
	for _, l := range bad {
		p.gone(l.Src, fmt.Errorf("%w: %w", errFrame, ballot.ErrStranger))
	}
	switch {
	case a == nil:
	case missed != nil:
		complete(missed)
	case number != 0 && !r.done():
		if d := c.disagreement(p.trouble.Load()); d != nil { // it may have come before the agreement was open
			p.endBallots(c.ctx, d)
		}
		c.world.late.need()
	}
	return a, r
}

// voters is a communicator, as its agreements see it.
type voters Comm

func (c *voters) Member(r int) int { return (*Comm)(c).memberRank(r) }

func (c *voters) Send(seq uint32, m *ballot.Message) {
	_ = c.proc.frame((*Comm)(c).worldRank(m.To), packBallot(m, c.ctx, seq))
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

// endBallots ends the waiting for agreements that not all ranks have come to: some are in collectives instead.
func (p *proc) endBallots(ctx uint64, d *disagreement) {
	if d.from > 0 {
		p.ballots.End(ctx, d.from, d.err)
	}
}

// voted is the arrival of a message of an agreement.
func (p *proc) voted(src int, f *fabric.Frame) error {
	head, data := f.Head, append([]byte(nil), f.Data...) // of this call only
	return p.ballots.Arrive(f.Head[0], uint32(f.Head[1]>>32), 4*p.world.size, ballot.Letter{Src: src, Read: func(n int) (ballot.Message, error) {
		return unpackBallot(n, &head, data)
	}})
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
