// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import "fmt"

// Who fails because another rank has says so, before it can end: what ends first is not what failed first. README.md, "The end of a rank".

// Blame is what a rank has said of its failure.
type Blame struct {
	Rank int // whose failure has this one fail; -1: it cannot say whose
	// Certain: this one fails because of that. Otherwise it knows of the other's failure and may go on; if it fails at about the same
	// time, that is why.
	Certain bool
}

// Blame tells the launcher that this rank is about to fail because another one has, or may be. The first that is certain counts, or else the last.
// It is for the job's exit status only, and is nothing if the rank then does not fail.
func (c *Client) Blame(b Blame) error {
	rank := b.Rank
	if rank < -1 || rank >= c.place.Ranks || rank == c.place.Rank {
		return c.fail("blame", fmt.Errorf("%w: rank %d; legal are the others of 0 to %d, and -1", ErrLimit, rank, c.place.Ranks-1))
	}
	f := frame{kind: rankBlames, rank: int32(rank)}
	if b.Certain {
		f.code = 1
	}
	return c.tell("blame", &f)
}

// blame records what a rank says of its failure.
func (s *space) blame(rank int, f *frame) error {
	if f.rank < -1 || int(f.rank) >= len(s.members) || int(f.rank) == rank || f.code < 0 || f.code > 1 {
		return fmt.Errorf("%w: rank %d blames rank %d (%d)", ErrProtocol, rank, f.rank, f.code)
	}
	if m := &s.members[rank]; m.blames == nil || !m.blames.Certain {
		m.blames = &Blame{Rank: int(f.rank), Certain: f.code == 1}
	}
	return nil
}

// Blames returns what a rank has said of its failure; nil if it has blamed nobody.
func (s *Server) Blames(rank int) *Blame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.members[rank].blames
}
