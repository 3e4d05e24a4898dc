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

// releasedMark, as the last record of a byte, says that the parent has given the byte up by
// Release, and that it is linked to the parent's access.
var releasedMark = new(record)

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

	// From the first link on, other goroutines cut rec's fragments: copy them.
	var room [8]span[frag]
	parts := room[:0]
	rec.wait = 1
	for q := (cursor{}); rec.frags.has(q); q = rec.frags.next(q) {
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
		// keeps the table as large as the memory in use is divided, not as all that was ever named
		r.tidy()
	}
	f.drain()
	rec.mu.Lock()
	rec.wait--
	starts := rec.wait == 0
	rec.mu.Unlock()
	return starts
}

// joinAll makes n take part in the reductions in list. It panics if list also names the memory of
// one of them otherwise.
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

// open enters the parent's declarations in the table: the first child that names a byte of them
// continues the parent's access.
func (r *ranges) open() {
	if r.last != nil {
		return
	}
	r.last = new(spans[*record])
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	m := &r.own.frags
	for p := (cursor{}); m.has(p); p = m.next(p) {
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
	if lo, hi := x.extent(); r.released != nil && lo < hi && r.released.meets(lo, hi) {
		panic(fmt.Sprintf("deps: a child accesses %v, which its parent has given up by Release, or a part of it", x))
	}
}

// declare adds x to the task's declarations. It combines bytes that are declared twice.
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
		case releasedMark:
			return true
		case &r.own: // if it has the write token, a child needs no link to it
			return !r.own.all(s.lo, s.hi, func(s uint32) bool { return s&hasW != 0 })
		}
		return !s.v.all(s.lo, s.hi, finished)
	}, func(a, b **record) bool { return *a == *b })
}

// makeRanges turns the domain of p's children into one of ranges. The chains of objects continue in
// a gate.
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
			if up.released {
				r.markReleased(lo, hi)
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
			// No message can come to its in-port that the children would wait for: treat the object
			// as if no child had named it.
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
	// The gate must count all its bridges before the first one brings a token.
	for i, b := range bridges {
		if last := ends[i]; last.owner() == p { //bug:bridge
			f.linkChild(last, b.access())
		} else {
			f.linkNext(last, b.access(), last.state.Load())
		}
		f.set(b.access(), hasChild|childInRun) //bug:bridge
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

// markReleased notes that children may not name [lo, hi) any more.
func (r *ranges) markReleased(lo, hi uintptr) {
	note(&r.released, lo, hi)
	if r.released.crowded() {
		r.released.tidy(func(*span[none]) bool { return true }, func(a, b *none) bool { return true })
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
		if !t.a.released {
			r.giveTop(t, f)
		}
	}
	f.drain()
	// A table that still has the record must keep nothing else alive.
	r.tops, r.cover, r.last, r.released, r.held, r.heldKeys, r.shared = nil, nil, nil, nil, nil, nil, nil
}

// giveUp gives up own in [lo, hi): it joins own's ports there, or links own after the children's
// records.
func (r *ranges) giveUp(lo, hi uintptr, f *Flow) {
	r.last.walk(lo, hi, func(lo, hi uintptr, last **record) {
		switch {
		case last == nil: // the write token has come, and no child uses the bytes any more
			emit(f, &r.own, lo, hi, outW)
		case *last == releasedMark:
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
		case *last == releasedMark: // released with another object that overlaps
		default:
			(*last).follow(lo, hi, &r.sink.record, 0, f)
		}
	})
	r.last.replace(t.lo, t.hi, releasedMark)
	r.sink.give(t, f)
}

// top returns the parent's access to the object at key; nil if there is none.
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
	t.a.released = true
	r.giveTop(t, f)
	r.markReleased(t.lo, t.hi)
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
	r.last.replace(lo, hi, releasedMark)
	r.markReleased(lo, hi)
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
	if err == nil && r.released != nil && r.released.meets(lo, hi) {
		err = fmt.Errorf("deps: Release of %v: the task has given it up before, or a part of it", x)
	}
	return err
}

// leave takes the first k accesses of n out of the table again. Unlike undo it leaves no access
// there.
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

// Accesses returns the number of objects that n accesses. In a domain of ranges it returns the
// number of fragments: pieces of memory that the task accesses in one way and that have no gap.
// Only the creator may call it, before the task can start.
func (n *Node) Accesses() int {
	if r := rangesOf(n); r != nil {
		return r.own.count()
	}
	return int(n.count)
}
