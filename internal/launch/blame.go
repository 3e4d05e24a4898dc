// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import "fmt"

// A rank that fails because another rank has failed tells the launcher so before it ends: the rank
// that ends first need not be the one that failed first. See README.md, "The end of a rank".

// Blame is a rank's statement about the cause of its failure.
type Blame struct {
	Rank int // the rank whose failure is the cause, which may be the blaming rank; -1: not known
	// Certain: the blaming rank fails because of that failure. Otherwise it knows of the failure
	// and may go on; if it fails at about the same time, that failure is the cause.
	Certain bool
	// Reason describes the failure in one sentence, for the other ranks, if it is certain. Lost:
	// the failure is the loss of the rank, and Reason says how it was lost.
	Reason string
	Lost   bool
}

// Blame tells the launcher that this rank is about to fail, or may be, because of a failure of
// another rank or of its own. The first certain blame of another rank counts; if there is none, the
// last one counts. A blame only affects the job's exit status and the Cause of this rank's Death.
// It has no effect if the rank then does not fail.
func (c *Client) Blame(b Blame) error {
	rank := b.Rank
	if rank < -1 || rank >= c.identity.Ranks || rank == c.identity.Rank && !b.Certain {
		return c.fail("blame", fmt.Errorf("%w: rank %d; legal are -1 to %d, and this one if it is certain", ErrLimit, rank, c.identity.Ranks-1))
	}
	f := frame{kind: rankBlames, rank: int32(rank), value: cut(b.Reason)}
	if b.Certain {
		f.code = blameCertain
	}
	if b.Lost {
		f.code |= blameLost
	}
	return c.ask("blame", &f, nil)
}

// Bits of the code of a rankBlames.
const (
	blameCertain = 1
	blameLost    = 2
)

// blame records a rank's blame.
func (s *space) blame(rank int, f *frame) error {
	if f.rank < -1 || int(f.rank) >= len(s.members) || f.code < 0 || f.code > blameCertain|blameLost || int(f.rank) == rank && f.code&blameCertain == 0 {
		return fmt.Errorf("%w: rank %d blames rank %d (%d)", ErrProtocol, rank, f.rank, f.code)
	}
	m := &s.members[rank]
	b := &Blame{Rank: int(f.rank), Certain: f.code&blameCertain != 0, Lost: f.code&blameLost != 0, Reason: string(f.value)}
	switch {
	case b.Rank == rank:
		m.own = b
	case m.blames == nil || !m.blames.Certain:
		m.blames = b
	}
	return nil
}

// cause returns the cause of a rank's failure for the other ranks; nil: the rank has not given one.
func (m *member) cause() *Blame {
	if b := m.blames; b != nil && b.Certain && b.Rank >= 0 && b.Reason != "" {
		return b
	}
	return m.own
}

// Blames returns which other rank a rank blames for its failure; nil if none.
func (s *Server) Blames(rank int) *Blame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.members[rank].blames
}
