// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// A span is an interval of addresses with a value. It is never empty.
type span[V any] struct {
	lo, hi uintptr // [lo, hi)
	v      V
}

// spans is an ordered list of disjoint spans: an array while there are few of them, else a list of
// arrays. To find one takes logarithmic time; to insert or to cut one moves no more than one array
// and, once in half an array's length, the list of arrays.
//
// The zero value is empty. It must not be copied, and has no lock of its own.
type spans[V any] struct {
	leaves [][]span[V] // none is empty
	n      int
	limit  int // n at which tidy is worth its time
	asked  int // calls of crowded since the last tidy

	// Memory of the first span: most lists have just one.
	top   [1][]span[V]
	first [1]span[V]
}

const (
	leafMax = 64 // spans in an array (guess: some cache lines to move)
	tidyMin = 8  // spans that are never tidied (guess)
)

// reserve makes room for n spans. Precondition: the list has never had any.
func (m *spans[V]) reserve(n int) {
	if n > 1 {
		m.top[0] = make([]span[V], 0, min(n, leafMax))
	}
}

// A place is the position of a span. Insertions make it invalid.
type place struct{ leaf, i int }

// seek returns the place of the first span that ends after x, or the place behind all.
func (m *spans[V]) seek(x uintptr) place {
	lo, hi := 0, len(m.leaves)
	for lo < hi {
		k := int(uint(lo+hi) >> 1)
		if l := m.leaves[k]; l[len(l)-1].hi > x {
			hi = k
		} else {
			lo = k + 1
		}
	}
	p := place{leaf: lo}
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
func (m *spans[V]) has(p place) bool { return p.leaf < len(m.leaves) }

// at returns the span at p, until the next insertion.
func (m *spans[V]) at(p place) *span[V] { return &m.leaves[p.leaf][p.i] }

func (m *spans[V]) next(p place) place {
	if p.i++; p.i == len(m.leaves[p.leaf]) {
		return place{leaf: p.leaf + 1}
	}
	return p
}

func (m *spans[V]) prev(p place) place {
	if p.i == 0 {
		return place{p.leaf - 1, len(m.leaves[p.leaf-1]) - 1}
	}
	p.i--
	return p
}

// insert puts s before p and returns its place. p may be one behind the end of an array.
func (m *spans[V]) insert(p place, s span[V]) place {
	m.n++
	if len(m.leaves) == 0 {
		if m.top[0] == nil {
			m.top[0] = m.first[:0]
		}
		m.top[0] = append(m.top[0][:0], s) // what it held is erased
		m.leaves = m.top[:]
		return place{}
	}
	if p.leaf == len(m.leaves) {
		p = place{p.leaf - 1, len(m.leaves[p.leaf-1])}
	}
	if l := m.leaves[p.leaf]; len(l) == leafMax {
		if p.leaf == len(m.leaves)-1 && p.i == leafMax { // addresses that only grow
			l := append(make([]span[V], 0, leafMax), s)
			m.leaves = append(m.leaves, l)
			return place{leaf: p.leaf + 1}
		}
		const half = leafMax / 2
		right := copyOf(l[half:], leafMax)
		clear(l[half:])
		m.leaves[p.leaf] = l[:half]
		m.leaves = insertAt(m.leaves, p.leaf+1, right)
		if p.i > half {
			p = place{p.leaf + 1, p.i - half}
		}
	}
	m.leaves[p.leaf] = insertAt(m.leaves[p.leaf], p.i, s)
	return p
}

// cut makes two spans of the one at p, the first of them up to x, and returns the place of the
// first. Precondition: x is inside.
func (m *spans[V]) cut(p place, x uintptr) place {
	s := *m.at(p)
	m.at(p).hi = x
	s.lo = x
	return m.prev(m.insert(place{p.leaf, p.i + 1}, s))
}

// narrow cuts the span at p so that a span is its part in [lo, hi), and returns the place of that.
func (m *spans[V]) narrow(p place, lo, hi uintptr) place {
	if m.at(p).lo < lo {
		p = m.next(m.cut(p, lo))
	}
	if m.at(p).hi > hi {
		p = m.cut(p, hi)
	}
	return p
}

// fill calls f for each part of [lo, hi), cut to fit: for the spans that are there, and for
// new ones in the gaps, which have a zero value.
func (m *spans[V]) fill(lo, hi uintptr, f func(s *span[V], isNew bool)) {
	p := m.seek(lo)
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

// walk calls f for each part of [lo, hi), without cutting: with the value of the span that it is
// in, or with nil for a gap. f must not change the list.
func (m *spans[V]) walk(lo, hi uintptr, f func(lo, hi uintptr, v *V)) {
	for p := m.seek(lo); m.has(p); p = m.next(p) {
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

// meets reports whether a span has a part in [lo, hi).
func (m *spans[V]) meets(lo, hi uintptr) bool {
	p := m.seek(lo)
	return m.has(p) && m.at(p).lo < hi
}

// replace makes [lo, hi) one span with value v.
func (m *spans[V]) replace(lo, hi uintptr, v V) {
	p := m.seek(lo)
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
	if p = m.seek(hi); m.has(p) && m.at(p).lo < hi {
		m.cut(p, hi)
	}
	m.erase(m.seek(lo), m.seek(hi))
	m.insert(m.seek(lo), span[V]{lo, hi, v})
}

// erase takes out the spans from p to the one before q.
func (m *spans[V]) erase(p, q place) {
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

// crowded is called after each change and reports whether a tidy is worth its time: there are twice
// as many spans as after the last, or there were many changes.
func (m *spans[V]) crowded() bool {
	m.asked++
	return m.n > tidyMin && (m.n > m.limit || m.asked > 4*m.n)
}

// tidy drops the spans that keep refuses, and joins neighbours that are the same.
func (m *spans[V]) tidy(keep func(s *span[V]) bool, same func(a, b *V) bool) {
	old := m.leaves
	var out [][]span[V]
	var cur []span[V]
	if len(old) == 1 {
		out, cur = old[:0], old[0][:0] // in place: what is written has been read
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
