// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"fmt"

	"weft/comm/internal/coll"
)

// agreed checks that the ranks are in the same collective, as far as this one depends on them, and
// notes how far they are. The place is active or claimed.
func (s *Member) checkSame(p *cell, d *coll.Call, seq uint64) error {
	lo, hi := 0, s.st.size
	if !d.Large {
		lo, hi = d.Concerns(s.rank, s.st.size)
	}
	least := p.floor
	for r := lo; r < hi; r++ {
		q := s.st.cell(r, seq)
		if !p.same(q) {
			if err := s.disagreement(p, q, r); err != nil {
				return err
			}
		}
		least = min(least, q.floor)
	}
	if hi-lo == s.st.size && s.known.Load() < least {
		// another goroutine may store less at the same time, which is true as well
		s.known.Store(least)
	}
	return nil
}

// sighted compares a place that has just been published with those that are there already, and
// reports whether all are. If one of them is in another collective, all ranks hear of it. Of any
// two places the later one sees the other, so one look is enough.
func (s *Member) comparePublished(p *cell, seq uint64) (all bool) {
	n := 0
	for r := range s.st.rows {
		q := s.st.cell(r, seq)
		if q == nil || q.state.Load()>>phaseBits != seq {
			continue
		}
		if n++; q.what != p.what {
			_ = s.disagreement(p, q, r)
		}
	}
	return n == s.st.size
}

// unlike reports whether two places are not of one collective.
func disagree(p, q *cell) bool {
	return !p.same(q) && ((p.what^q.what)&coll.HistoryBits != 0 || !p.signature().Agrees(q.signature()))
}

// differs reports whether a place that waits is of another collective than some other one that is
// there. It reads what stays as it is; the place may be ended meanwhile.
func (st *Segment) hasDisagreement(p *cell, seq uint64) bool {
	for r := range st.rows {
		if q := st.cell(r, seq); q != nil && q.state.Load()>>phaseBits == seq && disagree(p, q) {
			return true
		}
	}
	return false
}

// doubt returns why two places are not of one collective; nil if they are. The first is active, and
// the caller's, or claimed.
func (s *Member) disagreement(p, q *cell, r int) error {
	if !disagree(p, q) {
		return nil
	}
	return s.host.Explain(r, fmt.Errorf("%w: rank %d is in %v where this rank is in %v", coll.ErrMismatch, r, q.signature(), p.signature()))
}

// ready reports whether a rank can go on with a collective. It looks at states only, so anybody may
// ask at any time.
func (st *Segment) ready(d *coll.Call, me int, seq uint64) bool {
	if st.inPieces(d) {
		return st.firstMissing(seq, 0) == st.size && (st.complete(d, seq) || !st.exhausted(d, seq))
	}
	switch d.Kind {
	case coll.Bcast, coll.Scatter:
		return me == d.Root || st.hasPublished(d.Root, seq)
	case coll.Reduce, coll.Gather:
		if me != d.Root {
			return true
		}
	}
	return st.firstMissing(seq, 0) == st.size
}
