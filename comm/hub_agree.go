// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/coll"
)

// agreed checks that the ranks are in the same collective, as far as this one depends on them, and notes how far they are. The
// place is active or claimed.
func (h *hub) agreed(p *place, me int, seq uint64) error {
	lo, hi := 0, h.size
	if !p.Large {
		lo, hi = p.Concerns(me, h.size)
	}
	least := p.floor
	for r := lo; r < hi; r++ {
		q := h.place(r, seq)
		if !p.same(q) {
			if err := h.doubt(p, q, r); err != nil {
				return err
			}
		}
		least = min(least, q.floor)
	}
	if k := &h.ranks[me].known; hi-lo == h.size && k.Load() < least {
		k.Store(least) // another goroutine may store less at the same time, which is true as well
	}
	return nil
}

// sighted compares a place that has just been published with those that are there already, and reports whether all are. If one of them is in another
// collective, all ranks hear of it. Of any two places the later one sees the other, so that nobody has to look again.
func (h *hub) sighted(p *place, seq uint64) (all bool) {
	n := 0
	for r := range h.ranks {
		q := h.place(r, seq)
		if q == nil || q.state.Load()>>phaseBits != seq {
			continue
		}
		if n++; q.what != p.what {
			_ = h.doubt(p, q, r)
		}
	}
	return n == h.size
}

// same reports whether two places say the same. Those that do not may be of one collective nevertheless.
func (p *place) same(q *place) bool { return q.what == p.what && q.unit == p.unit && q.elem == p.elem }

// unlike reports whether two places are not of one collective.
func unlike(p, q *place) bool {
	return !p.same(q) && ((p.what^q.what)&coll.HistoryBits != 0 ||
		!coll.NewSignature(p.what, p.elem, p.unit).Agrees(coll.NewSignature(q.what, q.elem, q.unit)))
}

// differs reports whether a place that waits is of another collective than some other one. All are there. It reads what stays
// as it is; the place may be ended meanwhile.
func (h *hub) differs(p *place, seq uint64) bool {
	for r := range h.ranks {
		if unlike(p, h.place(r, seq)) {
			return true
		}
	}
	return false
}

// doubt returns why two places are not of one collective; nil if they are. The first is active, and the caller's, or claimed.
func (h *hub) doubt(p, q *place, r int) error {
	if !unlike(p, q) {
		return nil
	}
	mine, theirs := coll.NewSignature(p.what, p.elem, p.unit), coll.NewSignature(q.what, q.elem, q.unit)
	return p.c.explanation(r, fmt.Errorf("%w: rank %d is in %v where this rank is in %v", ErrMismatch, r, theirs, mine))
}

// hubParts are the places of one collective. They are active or claimed.
type hubParts struct {
	h   *hub
	seq uint64
}

func (s hubParts) Part(r int) []byte { return s.h.place(r, s.seq).inline[:] }
