// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"weft/internal/chain"
	"weft/task/internal/addrmap"
)

// Where a range is named, chains are of bytes: a list of spans, each of which ends in one run for all its bytes. A run is never about more
// bytes than each of its tasks has, so that who comes behind it is ordered only by what it overlaps: who joins a group with a part of its bytes
// makes a run of its own, with the group as its same.

// apiece returns uses that are apart and about ranges: what is declared of a byte twice is combined, by the rules of package deps.
func apiece(uses []*use) []*use {
	out := make([]*use, 0, len(uses))
	for _, u := range uses {
		rest := []*use{{lo: u.lo, hi: u.hi, slice: true, mode: u.mode, weak: u.weak, access: u.access}}
		for i := 0; i < len(out); i++ {
			own := out[i]
			for k := 0; k < len(rest); k++ {
				x := rest[k]
				lo, hi := max(own.lo, x.lo), min(own.hi, x.hi)
				if lo >= hi {
					continue
				}
				// What of own and of x is not in both keeps its mode.
				if own.lo < lo {
					left := *own
					left.hi = lo
					out = append(out, &left)
				}
				if hi < own.hi {
					right := *own
					right.lo = hi
					out = append(out, &right)
				}
				own.lo, own.hi = lo, hi
				own.mode, own.weak = own.mode.Both(x.mode), own.weak && x.weak
				if hi < x.hi {
					right := *x
					right.lo = hi
					rest = append(rest, &right)
				}
				x.hi = lo // empty, if there is nothing on the left
			}
		}
		for _, x := range rest {
			if x.lo < x.hi {
				out = append(out, x)
			}
		}
	}
	return out
}

// seek returns the first span that ends after lo.
func (d *domain) seek(lo uintptr) int {
	i, j := 0, len(d.spans)
	for i < j {
		if k := int(uint(i+j) >> 1); d.spans[k].hi > lo {
			j = k
		} else {
			i = k + 1
		}
	}
	return i
}

// addRange puts u at the end of the chains of all its bytes.
func (d *domain) addRange(u *use) {
	from := d.seek(u.lo)
	to := from
	var list []span // in place of those from from to to
	at := u.lo
	add := func(lo, hi uintptr, tail *run) {
		x := joinRange(tail, u, lo, hi)
		u.runs = append(u.runs, x)
		list = append(list, span{lo, hi, x})
	}
	for ; to < len(d.spans) && d.spans[to].lo < u.hi; to++ {
		s := d.spans[to]
		if s.lo < u.lo {
			list = append(list, span{s.lo, u.lo, s.tail})
		}
		if at < s.lo {
			add(at, s.lo, nil)
		}
		add(max(s.lo, u.lo), min(s.hi, u.hi), s.tail)
		at = min(s.hi, u.hi)
		if u.hi < s.hi {
			list = append(list, span{u.hi, s.hi, s.tail})
		}
	}
	if at < u.hi {
		add(at, u.hi, nil)
	}
	d.replace(from, to, list)
}

// replace puts a list in the place of the spans from from to to.
func (d *domain) replace(from, to int, list []span) {
	more := len(list) - (to - from)
	n := len(d.spans)
	for range more {
		d.spans = append(d.spans, span{})
	}
	switch {
	case more > 0:
		for i := n - 1; i >= to; i-- {
			d.spans[i+more] = d.spans[i]
		}
	case more < 0:
		for i := to; i < n; i++ {
			d.spans[i+more] = d.spans[i]
		}
		clear(d.spans[n+more:])
		d.spans = d.spans[:n+more]
	}
	for i, s := range list {
		d.spans[from+i] = s
	}
}

// joinRange returns the run that u is in with these bytes, behind tail: that itself, or a new one.
func joinRange(tail *run, u *use, lo, hi uintptr) *run {
	m := u.mode
	x := &run{lo: lo, hi: hi, mode: m, access: u.access}
	switch {
	case tail == nil:
	case tail.mode != m || m == chain.ModeInOut:
		x.prevs = []*run{tail}
	case tail.lo == lo && tail.hi == hi:
		return tail
	default:
		x.same, x.prevs = tail, tail.prevs
		tail.heirs = append(tail.heirs, x)
	}
	return x
}

// makeRanges makes the chains of objects those of their bytes. Where objects overlap, their chains are joined.
func (d *domain) makeRanges() {
	d.ranges = true
	d.tails.All(func(v any) bool {
		tail := v.(*run)
		u := &use{lo: tail.lo, hi: tail.hi, slice: true, mode: chain.ModeInOut, access: tail.access}
		d.addRange(u)
		for _, x := range u.runs {
			x.prevs = append(x.prevs, tail)
		}
		return true
	})
	d.tails = addrmap.Map{}
}
