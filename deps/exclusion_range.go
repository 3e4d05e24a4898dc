// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

// Ranges are excluded byte by byte. The bytes that are held or waited for are cut into pieces wherever one of the ranges begins or ends, and each
// piece is a claim, as an object is: so a range is a number of objects, and all that holds for these holds for it. A piece
// that is cut becomes two with the same holder and the same waiters. All pieces are in one shard; its lock guards what is here.

// cutOut cuts the pieces that are there at both ends of x.
func (e *exclusion) cutOut(x extent) {
	e.cutAt(x.lo)
	e.cutAt(x.hi)
}

func (e *exclusion) cutAt(at uintptr) {
	m := &e.bytes
	p := m.seek(at)
	if !m.has(p) || m.at(p).lo >= at {
		return
	}
	p = m.cut(p, at)
	c := m.at(p).v
	second := &claim{at: at, holder: c.holder}
	m.at(m.next(p)).v = second
	for y := c.first; y != nil; y = y.next {
		z := new(want)
		z.join(y.w, second)
		y.w.cuts = append(y.w.cuts, z)
	}
}

// refusing returns a piece of x that somebody else has, or that is kept for a waiter; nil if there is none.
func (e *exclusion) refusing(x extent) (c *claim) {
	e.bytes.walk(x.lo, x.hi, func(_, _ uintptr, v **claim) {
		if c == nil && v != nil && (*v).refuses() {
			c = *v
		}
	})
	return c
}

// each calls f for the pieces of x, and makes those that are missing. Precondition: cutOut.
func (e *exclusion) each(x extent, f func(c *claim)) {
	e.bytes.fill(x.lo, x.hi, func(s *span[*claim], isNew bool) {
		if isNew {
			s.v = &claim{at: s.lo}
		}
		f(s.v)
	})
}

// of returns what is free at the beginning of d; nil if nobody waits for it any more.
func (e *exclusion) of(d drop) *claim {
	if d.key != nil {
		return e.find(d.key)
	}
	if p := e.bytes.seek(d.lo); e.bytes.has(p) && e.bytes.at(p).lo <= d.lo {
		return e.bytes.at(p).v
	}
	return nil
}

// held appends the pieces of x to list: nil for what nobody has or waits for.
func (e *exclusion) held(x extent, list []*claim) []*claim {
	e.cutOut(x)
	e.bytes.walk(x.lo, x.hi, func(_, _ uintptr, v **claim) {
		if v == nil {
			list = append(list, nil)
			return
		}
		list = append(list, *v)
	})
	return list
}

// forget takes the pieces of x out that nobody has or waits for.
func (e *exclusion) forget(x extent) {
	m := &e.bytes
	dead := func(p place) bool {
		return m.has(p) && m.at(p).lo < x.hi && m.at(p).v.holder == nil && m.at(p).v.first == nil
	}
	for p := m.seek(x.lo); m.has(p) && m.at(p).lo < x.hi; {
		if !dead(p) {
			p = m.next(p)
			continue
		}
		q := p
		end := uintptr(0)
		for dead(q) {
			end = m.at(q).hi
			q = m.next(q)
		}
		m.erase(p, q)
		p = m.seek(end)
	}
}
