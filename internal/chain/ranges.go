// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"slices"
)

// sharedObject is an object with the bytes that it covers.
type sharedObject struct {
	key object
	extent
}

type none struct{}

// gone marks bytes that are given up, and linked to what the parent has declared.
var gone = new(record)

// registerRanges is register for a domain of ranges.
func (p *Node) registerRanges(n *Node, list []Access, f *Flow) bool {
	n.count = 0
	r := inRanges(p.dom)
	r.open()
	reduces := false
	for _, x := range list {
		r.vet(x)
		reduces = reduces || x.mode == ModeReduce
	}
	if reduces {
		p.joinAll(n, list, f)
	}
	own := new(ranges)
	if k := len(list); k > 1 {
		own.own.frags.reserve(k)
		own.more = make([]object, 0, k-1)
	}
	modes := uint32(0)
	for _, x := range list {
		own.declare(x)
		modes |= x.bits()
	}
	rec := &own.own
	if modes&isCommut != 0 || r.held != nil {
		n.rested = rec.commute(list, r)
		own.heldKeys = r.heldKeys[:len(r.heldKeys):len(r.heldKeys)]
		for i := range rec.keys {
			own.heldKeys = append(own.heldKeys, rec.keys[i].key)
		}
	}
	own.shared = r.shared
	if rec.frags.n == 0 {
		return true
	}
	if n.dom == nil {
		n.makeDomain()
	}
	setRanges(n.dom, own)
	rec.owner = n

	// From the first link on, others cut rec's fragments.
	var room [8]span[frag]
	parts := room[:0]
	rec.wait = 1
	for q := (place{}); rec.frags.has(q); q = rec.frags.next(q) {
		s := rec.frags.at(q)
		parts = append(parts, *s)
		if s.v.state&isWeak == 0 {
			rec.wait += s.hi - s.lo
		}
	}
	for i := range parts {
		s := &parts[i]
		as := s.v.state
		r.last.walk(s.lo, s.hi, func(lo, hi uintptr, last **record) {
			switch {
			case last == nil:
				emit(f, rec, lo, hi, hasW)
			case *last == &r.own:
				r.own.adopt(lo, hi, rec, as, f)
			default:
				(*last).follow(lo, hi, rec, as, f)
			}
		})
		r.last.replace(s.lo, s.hi, rec)
	}
	if r.last.crowded() {
		// the table is to be as large as the memory in use is divided, not as what was ever named
		r.tidy()
	}
	f.drain()
	rec.mu.Lock()
	rec.wait--
	starts := rec.wait == 0
	rec.mu.Unlock()
	return starts
}

// joinAll makes n take part in the reductions in list. It panics if list names the memory of one
// otherwise.
func (p *Node) joinAll(n *Node, list []Access, f *Flow) {
	if why := VetReductions(list); why != "" {
		panic("deps: " + why)
	}
	for _, x := range list {
		if x.mode == ModeReduce && f.Join != nil {
			if why := f.Join(p, n, x); why != "" {
				panic("deps: " + why)
			}
		}
	}
}

// open enters what the parent has declared: the first child to name a byte of it continues the
// parent's access.
func (r *ranges) open() {
	if r.last != nil {
		return
	}
	r.last = new(spans[*record])
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	m := &r.own.frags
	for p := (place{}); m.has(p); p = m.next(p) {
		s := m.at(p)
		if k := len(r.cover); k > 0 && r.cover[k-1].hi == s.lo {
			r.cover[k-1].hi = s.hi
		} else {
			r.cover = append(r.cover, extent{s.lo, s.hi})
		}
		if holdsBelow(s.v.state) {
			note(&r.held, s.lo, s.hi)
		}
	}
	for _, c := range r.cover {
		r.last.replace(c.lo, c.hi, &r.own)
	}
}

// vet panics if a child may not declare x.
func (r *ranges) vet(x Access) {
	if x.ptr == nil && !x.isRange() {
		panicZero()
	}
	if lo, hi := x.extent(); r.given != nil && lo < hi && r.given.meets(lo, hi) {
		panic(fmt.Sprintf("deps: a child accesses %v, which its parent has given up by Release, or a part of it", x))
	}
}

// declare adds x to what the task declares. Bytes that are declared twice are combined.
func (r *ranges) declare(x Access) {
	lo, hi := x.extent()
	if lo == hi {
		return
	}
	if r.keep == nil {
		r.keep = x.ptr
	} else {
		r.more = append(r.more, x.ptr)
	}
	r.own.frags.fill(lo, hi, func(s *span[frag], isNew bool) {
		if isNew {
			s.v.state = x.bits()
		} else {
			s.v.state = union(s.v.state, x)
		}
	})
	r.own.settle()
}

// tidy drops bytes that are over from the table.
func (r *ranges) tidy() {
	if r.last == nil {
		return
	}
	r.last.tidy(func(s *span[*record]) bool {
		switch s.v {
		case gone:
			return true
		case &r.own: // with the write token, a child needs no link to it
			return !r.own.all(s.lo, s.hi, func(s uint32) bool { return s&hasW != 0 })
		}
		return !s.v.all(s.lo, s.hi, finished)
	}, func(a, b **record) bool { return *a == *b })
}

// makeRanges makes the domain of p's children one of ranges. The chains of objects go on in a gate.
func (p *Node) makeRanges(d *domain, f *Flow) {
	r := &ranges{last: new(spans[*record])}
	setRanges(d, r)
	g := new(gate)
	var ends []*access
	var bridges []*bridge
	for i := range d.tab {
		e := &d.tab[i]
		if e.last == nil {
			continue
		}
		lo, up := e.key, d.up(e)
		if up != nil {
			hi := lo + d.sizeOf(up, e.key)
			if up.given {
				r.giveBytes(lo, hi)
				r.tops = append(r.tops, &top{a: up, lo: lo, hi: hi})
				continue
			}
			if r.sink == nil {
				r.sink = newSink()
			}
			r.tops = append(r.tops, r.sink.cover(up, lo, hi))
			if s := up.state.Load(); holdsBelow(s) {
				note(&r.held, lo, hi)
				r.heldKeys = append(r.heldKeys, d.ups[i].obj)
			} else if s&isCommut != 0 {
				r.shared = append(r.shared, sharedObject{d.ups[i].obj, extent{lo, hi}})
			}
		}
		switch s := e.last.state.Load(); {
		case e.last == up && (s&hasW != 0 || isHolder(s)):
			// Nothing more comes to its in-port that the children would wait for: it is as if
			// nobody had named it.
		case e.last != up && finished(s):
			f.set(e.last, closed)
		default:
			hi := lo + d.sizeOf(e.last, e.key)
			r.last.fill(lo, hi, func(s *span[*record], _ bool) { s.v = &g.record })
			bridges = append(bridges, g.cover(lo, hi))
			ends = append(ends, e.last)
		}
	}
	slices.SortFunc(r.tops, func(s, t *top) int { return s.compare(t.lo) })
	// The gate must count on all its bridges before the first brings something.
	for i, b := range bridges {
		if last := ends[i]; last.owner() == p { //bug:bridge
			f.linkChild(last, b.access())
		} else {
			f.linkNext(last, b.access(), last.state.Load())
		}
		f.set(b.access(), hasChild|childGrp) //bug:bridge
	}
	d.empty()
	d.big = nil
}

// note adds [lo, hi) to a set of bytes.
func note(set **spans[none], lo, hi uintptr) {
	if *set == nil {
		*set = new(spans[none])
	}
	(*set).replace(lo, hi, none{})
}

// giveBytes notes that no child may name [lo, hi) any more.
func (r *ranges) giveBytes(lo, hi uintptr) {
	note(&r.given, lo, hi)
	if r.given.crowded() {
		r.given.tidy(func(*span[none]) bool { return true }, func(a, b *none) bool { return true })
	}
}

// closeRanges is Finish for a task with a domain of ranges.
func (n *Node) closeRanges(d *domain, f *Flow) {
	r := inRanges(d)
	setRanges(d, nil)
	r.keep, r.more = nil, nil
	if r.last == nil {
		emit(f, &r.own, 0, ^uintptr(0), through)
	}
	for _, c := range r.cover {
		r.giveUp(c.lo, c.hi, f)
	}
	for _, t := range r.tops {
		if !t.a.given {
			r.giveTop(t, f)
		}
	}
	f.drain()
	// A table that still has the record keeps nothing else.
	r.tops, r.cover, r.last, r.given, r.held, r.heldKeys, r.shared = nil, nil, nil, nil, nil, nil, nil
}

// giveUp joins the ports of own, or links it behind the children's records, in [lo, hi).
func (r *ranges) giveUp(lo, hi uintptr, f *Flow) {
	r.last.walk(lo, hi, func(lo, hi uintptr, last **record) {
		switch {
		case last == nil: // the write token is there, and has gone through
			emit(f, &r.own, lo, hi, outW)
		case *last == gone:
		case *last == &r.own:
			emit(f, &r.own, lo, hi, through)
		default:
			(*last).follow(lo, hi, &r.own, nextUp, f)
		}
	})
}

// giveTop gives up an object that the parent has declared.
func (r *ranges) giveTop(t *top, f *Flow) {
	r.last.walk(t.lo, t.hi, func(lo, hi uintptr, last **record) {
		switch {
		case last == nil:
			emit(f, &r.sink.record, lo, hi, hasW)
		case *last == gone: // by another object that overlaps
		default:
			(*last).follow(lo, hi, &r.sink.record, 0, f)
		}
	})
	r.last.replace(t.lo, t.hi, gone)
	r.sink.give(t, f)
}

// top returns the parent's access to the object at key, nil if there is none.
func (r *ranges) top(key object) *top {
	if i, ok := slices.BinarySearchFunc(r.tops, addr(key), (*top).compare); ok {
		return r.tops[i]
	}
	return nil
}

func (t *top) compare(lo uintptr) int { return cmp.Compare(t.lo, lo) }

// releaseObject is Release for an access to the object at key, in a task whose children's domain is
// one of ranges.
func (r *ranges) releaseObject(key object, f *Flow) {
	t := r.top(key)
	t.a.given = true
	r.giveTop(t, f)
	r.giveBytes(t.lo, t.hi)
	f.drain()
}

// release is Release for a task in a domain of ranges.
func (r *ranges) release(x Access, f *Flow) error {
	lo, hi := x.extent()
	if lo == hi {
		if !x.isRange() {
			return fmt.Errorf("deps: Release of %v: the task has not declared an access to this object", x)
		}
		return nil
	}
	r.open()
	if err := r.mayRelease(x, lo, hi); err != nil {
		return err
	}
	r.giveUp(lo, hi, f)
	r.last.replace(lo, hi, gone)
	r.giveBytes(lo, hi)
	f.drain()
	return nil
}

func (r *ranges) mayRelease(x Access, lo, hi uintptr) (err error) {
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	r.own.frags.walk(lo, hi, func(a, b uintptr, v *frag) {
		switch {
		case err != nil:
		case v == nil:
			err = fmt.Errorf("deps: Release of %v: the task has not declared bytes %d to %d of it", x, a-lo, b-lo)
		case modeOf(v.state) != x.mode.order() || isWeakly(v.state) != x.weak:
			got := Range{nil, 0}.Access(modeOf(v.state))
			got.weak = isWeakly(v.state)
			err = fmt.Errorf("deps: Release of %v: the task has declared %s for bytes %d to %d of it", x, got.how, a-lo, b-lo)
		}
	})
	if err == nil && r.given != nil && r.given.meets(lo, hi) {
		err = fmt.Errorf("deps: Release of %v: the task has given it up before, or a part of it", x)
	}
	return err
}

// leave takes the first k accesses of n out of the table again. Unlike undo it leaves nothing of
// them behind.
func (n *Node) leave(d *domain, k int32) {
	for i := range k {
		a := n.at(i)
		d.probe(addr(a.ref())).last = a.succ()
		a.setRef(nil)
	}
}

// count returns the number of fragments.
func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frags.n
}

// Accesses returns how many objects n accesses; in a domain of ranges, how many pieces of memory
// that it uses in different ways or that have others between them. It is for the creator, before
// the task can start.
func (n *Node) Accesses() int {
	if r := rangesOf(n); r != nil {
		return r.own.count()
	}
	return int(n.count)
}
