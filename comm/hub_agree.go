// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/mem"
)

// concerns returns the ranks, from lo up to hi, with which a rank must agree in a collective that is not large.
func (d *collCall) concerns(me, n int) (lo, hi int) {
	switch d.kind {
	case bcast, scatter:
		return d.root, d.root + 1
	case reduce, gather:
		if me != d.root {
			return 0, 0
		}
	}
	return 0, n
}

// agreed checks that the ranks are in the same collective, as far as this one depends on them, and notes how far they are. The
// place is active or claimed.
func (h *hub) agreed(p *place, me int, seq uint64) error {
	lo, hi := 0, h.size
	if !p.large {
		lo, hi = p.concerns(me, h.size)
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
	return !p.same(q) && ((p.what^q.what)&historyBits != 0 ||
		!newSignature(p.what, p.elem, p.unit).agrees(newSignature(q.what, q.elem, q.unit)))
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
	mine, theirs := newSignature(p.what, p.elem, p.unit), newSignature(q.what, q.elem, q.unit)
	return p.c.explanation(r, fmt.Errorf("%w: rank %d is in %v where this rank is in %v", ErrMismatch, r, theirs, mine))
}

// parts are what ranks show of a small collective, at the hub or at the board.
type parts interface{ part(r int) []byte }

// hubParts are the places of one collective. They are active or claimed.
type hubParts struct {
	h   *hub
	seq uint64
}

func (s hubParts) part(r int) []byte { return s.h.place(r, s.seq).inline[:] }

// flat computes a small collective of n ranks, for one of them, from what all show.
func flat[P parts](d *collCall, me, n int, all P) error {
	u := d.unit
	if u == 0 {
		return nil
	}
	switch d.kind {
	case bcast:
		if me != d.root {
			d.out.CopyFromBytes(all.part(d.root)[:u], 0)
		}
	case scatter:
		d.out.CopyFromBytes(all.part(d.root)[me*u:(me+1)*u], 0)
	case gather:
		if me == d.root {
			collect(d, n, all)
		}
	case allgather:
		collect(d, n, all)
	case alltoall:
		for r := range n {
			d.out.CopyFromBytes(all.part(r)[me*u:(me+1)*u], r*u)
		}
	case reduce:
		if me == d.root {
			return combine(d, n, all)
		}
	case allreduce:
		return combine(d, n, all)
	case scan:
		return scanFlat(d, me, all)
	}
	return nil
}

// collect puts all parts side by side.
func collect[P parts](d *collCall, n int, all P) {
	for r := range n {
		d.out.CopyFromBytes(all.part(r)[:d.unit], r*d.unit)
	}
}

// combine combines all parts, in the order of the tree.
func combine[P parts](d *collCall, n int, all P) error {
	mem, ok := d.out.Contiguous()
	if ok && n == 2 {
		return d.op.combine(d.out, d.out.Over(all.part(0)[:d.unit]), d.out.Over(all.part(1)[:d.unit]))
	}
	e := executors.Get().(*executor)
	defer e.release()
	if !ok {
		mem = scratch(&e.acc, d.unit)
	}
	t, u := treeOf(d, n), d.unit // who calls keeps d on its stack
	t.leaf = func(r int) []byte { return all.part(r)[:u] }
	err := t.eval(e, mem, 0, t.width, 0)
	if !ok && err == nil { // else mem may hold what another collective has left
		d.out.CopyFromBytes(mem, 0)
	}
	return err
}

// scanFlat is what scanDoubling computes at a rank: in round k, what the rank 2^k below has is put before what this one has.
func scanFlat[P parts](d *collCall, me int, all P) error {
	u := d.unit
	tmp := mem.NewBlock((me + 1) * u)
	defer tmp.Free()
	at := func(r int) []byte { return tmp.B[r*u : (r+1)*u] }
	for r := range me + 1 {
		copy(at(r), all.part(r)[:u])
	}
	for k := 1; k <= me; k *= 2 {
		for r := me; r >= k; r-- {
			if err := d.op.apply(d.in.Over(at(r-k)), d.in.Over(at(r))); err != nil {
				return err
			}
		}
	}
	d.out.CopyFromBytes(at(me), 0)
	return nil
}
