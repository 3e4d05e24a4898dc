// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "fmt"

// Ranges exclude each other byte by byte. The bytes that are held or waited for are cut into pieces
// wherever one of the ranges begins or ends. Each piece is a resource, as an object is. So a range
// is a set of resources, and all rules for objects hold for it. A piece that is cut becomes two,
// with the same holder and the same waiters. All pieces are in one shard, byteShard, whose lock
// guards everything in this file.

// cutOut cuts the existing pieces at both ends of x.
func (e *exclusion) cutOut(x extent) {
	e.cutAt(x.lo)
	e.cutAt(x.hi)
}

func (e *exclusion) cutAt(at uintptr) {
	m := &e.bytes
	p := m.search(at)
	if !m.has(p) || m.at(p).lo >= at {
		return
	}
	p = m.cut(p, at)
	c := m.at(p).v
	second := &resource{holder: c.holder} //bug:P2-holder
	m.at(m.next(p)).v = second
	for y := c.first; y != nil; y = y.next { //bug:P2-waiters
		z := new(queueEntry)
		z.join(y.w, second)
		if y.w.more == nil {
			y.w.more = new(moreEntries)
		}
		y.w.more.cuts = append(y.w.more.cuts, z)
	}
}

// refusing returns a piece of x that is held, or reserved for a waiter; nil if there is none.
func (e *exclusion) refusing(x extent) (c *resource) {
	e.bytes.walk(x.lo, x.hi, func(_, _ uintptr, v **resource) {
		if c == nil && v != nil && (*v).refuses() {
			c = *v
		}
	})
	return c
}

// each calls f for the pieces of x, and makes those that are missing. Precondition: cutOut(x).
func (e *exclusion) each(x extent, f func(c *resource)) {
	e.bytes.fill(x.lo, x.hi, func(s *span[*resource], isNew bool) { //bug:P1
		if isNew {
			s.v = new(resource)
		}
		f(s.v)
	})
}

// piece returns the piece that contains the address at; nil if no node holds it or waits for it.
func (e *exclusion) piece(at uintptr) *resource {
	if p := e.bytes.search(at); e.bytes.has(p) && e.bytes.at(p).lo <= at {
		return e.bytes.at(p).v
	}
	return nil
}

// dropBytes notes that owner's hold on the bytes [lo, hi) has ended.
func (l *locks) dropBytes(lo, hi uintptr, owner *Node) {
	if k := len(l.bytes) - 1; k >= 0 && l.bytes[k].owner == owner && l.bytes[k].hi == lo {
		l.bytes[k].hi = hi
		return
	}
	l.bytes = append(l.bytes, byteDrop{owner, extent{lo, hi}})
}

// endBytes frees the pieces whose holds have ended, and puts those with waiters on l.free.
// Precondition: the caller has the locks of set.
func (e *exclusion) endBytes(l *locks, set uint64) {
	for _, d := range l.bytes {
		e.cutOut(d.extent) //bug:P3-cut
		e.bytes.walk(d.lo, d.hi, func(lo, hi uintptr, v **resource) {
			if v == nil || (*v).holder != d.owner {
				e.unlock(set)
				panic(fmt.Sprintf("deps: memory from %#x to %#x is given back by a node that does not hold it: it was started without Acquire", lo, hi))
			}
			if (*v).holder = nil; (*v).first != nil { //bug:G1
				l.free = append(l.free, lo)
			}
		})
		e.forget(d.extent) //bug:P3-free
	}
	clear(l.bytes)
	l.bytes = l.bytes[:0]
}

// forget removes the pieces of x that no node holds or waits for.
func (e *exclusion) forget(x extent) {
	m := &e.bytes
	dead := func(p cursor) bool {
		return m.has(p) && m.at(p).lo < x.hi && m.at(p).v.holder == nil && m.at(p).v.first == nil //bug:P3-waiters
	}
	for p := m.search(x.lo); m.has(p) && m.at(p).lo < x.hi; {
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
		p = m.search(end)
	}
}
