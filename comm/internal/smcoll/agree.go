// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"fmt"

	"weft/comm/internal/coll"
)

// checkSame checks that the ranks on which this one depends are in the same collective, and updates
// known from their floors. The cell is active or taken.
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
		// Another goroutine may store a smaller number at the same time, which is a lower bound
		// too.
		s.known.Store(least)
	}
	return nil
}

// comparePublished compares a cell that has just been published with the cells that are published
// already, and reports whether all are. If one of them is of another collective, all ranks are
// told. Of any two cells, the rank that publishes later finds the other's cell, so one comparison
// is enough.
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

// disagree reports whether two cells are of different collectives.
func disagree(p, q *cell) bool {
	return !p.same(q) && ((p.what^q.what)&coll.HistoryBits != 0 || !p.signature().Agrees(q.signature()))
}

// hasDisagreement reports whether the cell of a waiting rank is of another collective than any cell
// that is published. It reads only what does not change before all ranks have finished. The waiting
// operation may be ended meanwhile.
func (st *Segment) hasDisagreement(p *cell, seq uint64) bool {
	for r := range st.rows {
		if q := st.cell(r, seq); q != nil && q.state.Load()>>phaseBits == seq && disagree(p, q) {
			return true
		}
	}
	return false
}

// disagreement returns the error if cell q of rank r is of another collective than cell p, else
// nil. Cell p is the caller's and active, or is taken.
func (s *Member) disagreement(p, q *cell, r int) error {
	if !disagree(p, q) {
		return nil
	}
	return s.host.Explain(r, fmt.Errorf("%w: rank %d is in %v where this rank is in %v", coll.ErrMismatch, r, q.signature(), p.signature()))
}

// ready reports whether rank me has all that it needs to go on with a collective. It reads only
// states and counts, so any goroutine may call it at any time.
func (st *Segment) ready(d *coll.Call, me int, seq uint64) bool {
	if st.inPieces(d) {
		return st.firstMissing(seq, 0) == st.size && (st.complete(d, seq) || !st.exhausted(d, seq))
	}
	switch {
	case d.Kind.FromRoot():
		return me == d.Root || st.hasPublished(d.Root, seq)
	case d.Kind.ToRoot() && me != d.Root:
		return true
	}
	return st.firstMissing(seq, 0) == st.size
}
