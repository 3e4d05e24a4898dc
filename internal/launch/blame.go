// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import "fmt"

// Who fails because another rank has says so, before it can end: what ends first is not what failed
// first. README.md, "The end of a rank".

// Blame is what a rank has said of its failure.
type Blame struct {
	Rank int // whose failure has this one fail, which may be its own; -1: it cannot say whose
	// Certain: this one fails because of that. Otherwise it knows of the other's failure and may go
	// on; if it fails at about the same time, that is why.
	Certain bool
	// Reason is that failure in one sentence, for the others, where it is certain; Lost: it is the
	// loss of the rank, and the sentence says how.
	Reason string
	Lost   bool
}

// Blame tells the launcher that this rank is about to fail because another one has, or may be. The
// first that is certain counts, or else the last. It is for the job's exit status only, and is
// nothing if the rank then does not fail.
func (c *Client) Blame(b Blame) error {
	rank := b.Rank
	if rank < -1 || rank >= c.place.Ranks || rank == c.place.Rank && !b.Certain {
		return c.fail("blame", fmt.Errorf("%w: rank %d; legal are -1 to %d, and this one if it is certain", ErrLimit, rank, c.place.Ranks-1))
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

// blame records what a rank says of its failure.
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

// cause is what the others are told of the failure that a rank has ended with; nil: it has not
// said.
func (m *member) cause() *Blame {
	if b := m.blames; b != nil && b.Certain && b.Rank >= 0 && b.Reason != "" {
		return b
	}
	return m.own
}

// Blames returns what a rank has said of its failure; nil if it has blamed no other.
func (s *Server) Blames(rank int) *Blame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.members[rank].blames
}
