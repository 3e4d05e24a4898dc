// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// A span is an interval [lo, hi) of addresses with a value. It is never empty.
type span[V any] struct {
	lo, hi uintptr
	v      V
}

// spans is an ordered list of disjoint spans: an array while there are few, else a list of arrays.
// A search takes logarithmic time. An insertion or a cut moves at most one array and, once in half
// an array's length, the list of arrays.
//
// The zero value is empty. It must not be copied, and has no lock.
type spans[V any] struct {
	leaves [][]span[V] // none is empty
	n      int
	limit  int // n from which tidy pays
	asked  int // calls of crowded since the last tidy

	// Storage for the first span: most lists have just one.
	top   [1][]span[V]
	first [1]span[V]
}

const (
	leafMax = 64 // spans in an array (guess: a few cache lines to move)
	tidyMin = 8  // number of spans that is never tidied (guess)
)

// reserve makes room for n spans. Precondition: the list has never had any.
func (m *spans[V]) reserve(n int) {
	if n > 1 {
		m.top[0] = make([]span[V], 0, min(n, leafMax))
	}
}

// A cursor is the position of a span. Insertions invalidate it.
type cursor struct{ leaf, i int }

// search returns the cursor of the first span that ends after x, or the cursor after the last span.
func (m *spans[V]) search(x uintptr) cursor {
	lo, hi := 0, len(m.leaves)
	for lo < hi {
		k := int(uint(lo+hi) >> 1)
		if l := m.leaves[k]; l[len(l)-1].hi > x {
			hi = k
		} else {
			lo = k + 1
		}
	}
	p := cursor{leaf: lo}
	if lo == len(m.leaves) {
		return p
	}
	l := m.leaves[lo]
	hi = len(l)
	for p.i < hi {
		if k := int(uint(p.i+hi) >> 1); l[k].hi > x {
			hi = k
		} else {
			p.i = k + 1
		}
	}
	return p
}

// has reports whether there is a span at p.
func (m *spans[V]) has(p cursor) bool { return p.leaf < len(m.leaves) }

// at returns the span at p, until the next insertion.
func (m *spans[V]) at(p cursor) *span[V] { return &m.leaves[p.leaf][p.i] }

func (m *spans[V]) next(p cursor) cursor {
	if p.i++; p.i == len(m.leaves[p.leaf]) {
		return cursor{leaf: p.leaf + 1}
	}
	return p
}

func (m *spans[V]) prev(p cursor) cursor {
	if p.i == 0 {
		return cursor{p.leaf - 1, len(m.leaves[p.leaf-1]) - 1}
	}
	p.i--
	return p
}

// insert puts s before p and returns its cursor. p may be one past the end of an array.
func (m *spans[V]) insert(p cursor, s span[V]) cursor {
	m.n++
	if len(m.leaves) == 0 {
		if m.top[0] == nil {
			m.top[0] = m.first[:0]
		}
		m.top[0] = append(m.top[0][:0], s) // overwrites a span that was erased
		m.leaves = m.top[:]
		return cursor{}
	}
	if p.leaf == len(m.leaves) {
		p = cursor{p.leaf - 1, len(m.leaves[p.leaf-1])}
	}
	if l := m.leaves[p.leaf]; len(l) == leafMax {
		if p.leaf == len(m.leaves)-1 && p.i == leafMax { // ascending addresses
			l := append(make([]span[V], 0, leafMax), s)
			m.leaves = append(m.leaves, l)
			return cursor{leaf: p.leaf + 1}
		}
		const half = leafMax / 2
		right := copyOf(l[half:], leafMax)
		clear(l[half:])
		m.leaves[p.leaf] = l[:half]
		m.leaves = insertAt(m.leaves, p.leaf+1, right)
		if p.i > half {
			p = cursor{p.leaf + 1, p.i - half}
		}
	}
	m.leaves[p.leaf] = insertAt(m.leaves[p.leaf], p.i, s)
	return p
}

// cut cuts the span at p at x and returns the cursor of the first part. Precondition: x is inside
// the span.
func (m *spans[V]) cut(p cursor, x uintptr) cursor {
	s := *m.at(p)
	m.at(p).hi = x
	s.lo = x
	return m.prev(m.insert(cursor{p.leaf, p.i + 1}, s))
}

// narrow cuts the span at p at lo and hi if these are inside, and returns the cursor of the part in
// [lo, hi).
func (m *spans[V]) narrow(p cursor, lo, hi uintptr) cursor {
	if m.at(p).lo < lo {
		p = m.next(m.cut(p, lo))
	}
	if m.at(p).hi > hi {
		p = m.cut(p, hi)
	}
	return p
}

// fill calls f for spans that make up [lo, hi): existing ones, cut to fit, and new ones with the
// zero value in the gaps.
func (m *spans[V]) fill(lo, hi uintptr, f func(s *span[V], isNew bool)) {
	p := m.search(lo)
	for lo < hi {
		if !m.has(p) || m.at(p).lo > lo {
			end := hi
			if m.has(p) {
				end = min(end, m.at(p).lo)
			}
			p = m.insert(p, span[V]{lo: lo, hi: end})
			f(m.at(p), true)
		} else {
			p = m.narrow(p, lo, hi)
			f(m.at(p), false)
		}
		lo = m.at(p).hi
		p = m.next(p)
	}
}

// walk calls f for each part of [lo, hi), without cutting: with the value of the span that contains
// the part, or with nil for a gap. f must not change the list.
func (m *spans[V]) walk(lo, hi uintptr, f func(lo, hi uintptr, v *V)) {
	for p := m.search(lo); m.has(p); p = m.next(p) {
		s := m.at(p)
		if s.lo >= hi {
			break
		}
		if s.lo > lo {
			f(lo, s.lo, nil)
			lo = s.lo
		}
		end := min(s.hi, hi)
		f(lo, end, &s.v)
		lo = end
	}
	if lo < hi {
		f(lo, hi, nil)
	}
}

// meets reports whether a span overlaps [lo, hi).
func (m *spans[V]) meets(lo, hi uintptr) bool {
	p := m.search(lo)
	return m.has(p) && m.at(p).lo < hi
}

// replace makes [lo, hi) one span with value v.
func (m *spans[V]) replace(lo, hi uintptr, v V) {
	p := m.search(lo)
	if !m.has(p) || m.at(p).lo >= hi {
		m.insert(p, span[V]{lo, hi, v})
		return
	}
	if s := m.at(p); s.lo == lo && s.hi == hi {
		s.v = v
		return
	}
	if m.at(p).lo < lo {
		m.cut(p, lo)
	}
	if p = m.search(hi); m.has(p) && m.at(p).lo < hi {
		m.cut(p, hi)
	}
	m.erase(m.search(lo), m.search(hi))
	m.insert(m.search(lo), span[V]{lo, hi, v})
}

// erase removes the spans from p up to, not including, q.
func (m *spans[V]) erase(p, q cursor) {
	if p.leaf == q.leaf {
		if p.i < q.i {
			m.n -= q.i - p.i
			m.leaves[p.leaf] = removeAt(m.leaves[p.leaf], p.i, q.i)
		}
		return
	}
	from := p.leaf
	if p.i > 0 {
		l := m.leaves[from]
		m.n -= len(l) - p.i
		m.leaves[from] = removeAt(l, p.i, len(l))
		from++
	}
	for i := from; i < q.leaf; i++ {
		m.n -= len(m.leaves[i])
	}
	if q.i > 0 {
		m.n -= q.i
		m.leaves[q.leaf] = removeAt(m.leaves[q.leaf], 0, q.i)
	}
	m.leaves = removeAt(m.leaves, from, q.leaf)
}

// crowded is called after each change and reports whether tidy pays: there are twice as many spans
// as after the last tidy, or there were many changes.
func (m *spans[V]) crowded() bool {
	m.asked++
	return m.n > tidyMin && (m.n > m.limit || m.asked > 4*m.n)
}

// tidy drops the spans for which keep is false, and joins adjacent spans for which same is true.
func (m *spans[V]) tidy(keep func(s *span[V]) bool, same func(a, b *V) bool) {
	old := m.leaves
	var out [][]span[V]
	var cur []span[V]
	if len(old) == 1 {
		out, cur = old[:0], old[0][:0] // in place: writes stay behind reads
	} else {
		cur = make([]span[V], 0, leafMax)
	}
	n := 0
	for _, l := range old {
		for i := range l {
			s := l[i]
			if !keep(&s) {
				continue
			}
			if k := len(cur); k > 0 && cur[k-1].hi == s.lo && same(&cur[k-1].v, &s.v) {
				cur[k-1].hi = s.hi
				continue
			}
			if len(cur) == leafMax {
				out = append(out, cur)
				cur = make([]span[V], 0, leafMax)
			}
			cur = append(cur, s)
			n++
		}
	}
	if len(old) == 1 {
		clear(old[0][len(cur):])
	}
	if len(cur) > 0 {
		out = append(out, cur)
	}
	m.leaves = out
	m.n = n
	m.limit = 2 * n
	m.asked = 0
}
