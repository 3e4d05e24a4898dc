// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"weft/internal/xatomic"
)

// A record is what one task uses in a domain of ranges: all its accesses there,
// byte by byte. For each byte it is what an [access] is for an object, with the same state
// word and the same effects; neighbouring bytes in the same state are one fragment.
// Messages between records carry an interval.
//
// A record never serves a second task, so that nothing is lost by a late message (README.md,
// "Ranges").
type record struct {
	mu xatomic.Mutex

	// Guarded by mu once the record is published.
	frags spans[frag]
	// strong bytes that may not start yet, plus one while the task is being registered
	wait  uintptr
	keys  []hold   // objects that the task holds while it runs, besides bytes (commutative.go)
	bytes []extent // that it holds; constant, and while it runs also those of frags

	owner *Node // constant; nil if it is no task's; not used once the task is retired
	sink  *sink // constant; not nil for the record of a sink
}

// frag is the state of some bytes. What has no effect any more is made equal, so that fragments
// which differ in nothing else can be joined: a link over which the write token has gone is
// dropped, and that token brings the bits that it implies.
type frag struct {
	state uint32
	succ  *record // by hasNext
	child *record // by hasChild
}

// emit puts a message on the work list.
func emit(f *Flow, to *record, lo, hi uintptr, bits uint32) {
	if k := len(f.msgs); k > 0 {
		if m := &f.msgs[k-1]; target(m.to) == to && m.bits == bits && m.hi == lo {
			m.hi = hi
			return
		}
	}
	f.msgs = append(f.msgs, message{refer(to), lo, hi, bits})
}

// deliverNext takes a message from the work list and delivers it. What follows from it goes on
// the work list, so that there is no recursion, and no two records are locked at a time.
func (f *Flow) deliverNext() {
	k := len(f.msgs) - 1
	m := f.msgs[k]
	f.msgs[k] = message{} // keeps nothing alive
	f.msgs = f.msgs[:k]

	r := target(m.to)
	r.mu.Lock()
	starts := r.add(m.lo, m.hi, m.bits, f)
	r.mu.Unlock()
	if starts {
		f.ready.push(r.owner)
	}
	f.tell()
}

// add sets bits in the state of the bytes of r in [lo, hi), and puts what follows from it on the
// work list. It reports whether the task may start by that.
//
// +checklocks:r.mu
func (r *record) add(lo, hi uintptr, bits uint32, f *Flow) bool {
	m := &r.frags
	var open uintptr
	for p := m.seek(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		if has := m.at(p).v.state; has&bits == bits {
			continue
		}
		p = m.narrow(p, lo, hi)
		s := m.at(p)
		old := s.v.state
		s.v.state |= bits
		if bits&hasW != 0 {
			s.v.state |= hasR | hasG
		}
		if bits&outW != 0 {
			s.v.state |= outR
		}
		if r.carry(s, effects(s.v.state)&^effects(old), f) {
			open += s.hi - s.lo
		}
	}
	r.settle()
	r.wait -= open
	return open > 0 && r.wait == 0
}

// carry puts on the work list what the effects e of the bytes of s ask for, and reports
// whether these bytes let the task start.
//
// +checklocks:r.mu
func (r *record) carry(s *span[frag], e uint32, f *Flow) bool {
	v := &s.v
	if e&unlock != 0 {
		r.drop(s.lo, s.hi, f)
	}
	if e&(childR|childW|childG) != 0 {
		if r.sink != nil {
			r.sink.pass(s.lo, s.hi, e, f)
		} else {
			b := e & childR / childR * hasR
			if e&childG != 0 {
				b |= hasG
			}
			if e&childW != 0 {
				b = hasW
			}
			emit(f, v.child, s.lo, s.hi, b)
		}
		if e&childW != 0 {
			v.child = nil
			v.state &^= hasChild | childGrp
		}
	}
	if e&(sendR|sendW|sendG) != 0 {
		b := e & sendR / sendR * hasR
		if e&sendW != 0 {
			b = hasW
		}
		if v.state&nextUp != 0 {
			b *= toOut
		} else if e&sendG != 0 && b&hasW == 0 {
			b |= hasG
		}
		emit(f, v.succ, s.lo, s.hi, b)
		if e&sendW != 0 {
			v.succ = nil
			v.state &^= hasNext | nextUp | nextGroup
		}
	}
	return e&ready != 0 && v.state&isWeak == 0
}

// settle joins fragments when there are many.
//
// +checklocks:r.mu
func (r *record) settle() {
	if r.frags.crowded() {
		r.frags.tidy(func(*span[frag]) bool { return true }, func(a, b *frag) bool { return *a == *b })
	}
}

// follow makes next the successor of r in [lo, hi), where r is the last of its domain. as is the
// state of next's access, or nextUp if next is what the parent declared. What r passes on at once
// goes on the work list.
//
// Bytes that are over are not linked: nothing will come from them.
func (r *record) follow(lo, hi uintptr, next *record, as uint32, f *Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.frags
	for p := m.seek(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		s := m.at(p)
		if finished(s.v.state) {
			b := hasW
			if as == nextUp {
				b = outW
			}
			emit(f, next, max(s.lo, lo), min(s.hi, hi), b)
			continue
		}
		p = m.narrow(p, lo, hi)
		s = m.at(p)
		old := s.v.state
		s.v.succ = next
		s.v.state |= hasNext
		switch {
		case as == nextUp:
			s.v.state |= nextUp
		case sameGroup(old, as):
			s.v.state |= nextGroup
		}
		r.carry(s, effects(s.v.state)&^effects(old), f)
	}
	r.settle()
}

// adopt makes child the first child of r in [lo, hi), where no child has named the bytes before. as
// is the state of its access. Bytes that have the write token, or that r's task holds, are not
// linked: the child waits for nothing before them.
func (r *record) adopt(lo, hi uintptr, child *record, as uint32, f *Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.frags
	for p := m.seek(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		s := m.at(p)
		if s.v.state&hasW != 0 || isHolder(s.v.state) {
			emit(f, child, max(s.lo, lo), min(s.hi, hi), hasW)
			continue
		}
		p = m.narrow(p, lo, hi)
		s = m.at(p)
		old := s.v.state
		s.v.child = child
		s.v.state |= hasChild
		if sameGroup(old, as) {
			s.v.state |= childGrp
		}
		r.carry(s, effects(s.v.state)&^effects(old), f)
	}
	r.settle()
}

// all reports whether the states of all bytes of r in [lo, hi) are such.
func (r *record) all(lo, hi uintptr, such func(state uint32) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.frags
	for p := m.seek(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		if !such(m.at(p).v.state) {
			return false
		}
	}
	return true
}

// tell delivers what sinks have for accesses. It is called without a lock.
func (f *Flow) tell() {
	for k := len(f.outs) - 1; k >= 0; k-- {
		o := f.outs[k]
		f.outs[k] = out{}
		f.outs = f.outs[:k]
		f.push(o.a, o.bits)
	}
}

// enterPlain is enter for the first accesses of list as long as they are what most are: strong, In,
// Out or InOut, to objects that the list has not named yet. It returns how many these are, which is
// how many accesses of n it has filled.
func (n *Node) enterPlain(d *domain, list []Access, f *Flow) (k int32) {
	tab, mul, shift := d.tab, d.mul, d.shift
	for k := range list {
		key := addr(list[k].ptr)
		if e := &tab[home(key, mul, shift)&uint(len(tab)-1)]; e.key == key && e.last != nil {
			e.last.prefetch2() // the links will write it, and succ
		}
	}
	for k = range int32(len(list)) {
		x := &list[k]
		key, size := addr(x.ptr), x.sizeLo
		if x.mode > ModeInOut || x.weak || x.sizeHi != 0 || !fits(size) || key == 0 {
			return k
		}
		i := home(key, mul, shift)
		e := &tab[i&uint(len(tab)-1)]
		for e.key != key { // as in slot, which would be a call for every third key
			if e.key == 0 {
				e = d.add(e, key, f)
				tab, mul, shift = d.tab, d.mul, d.shift
				break
			}
			i++
			e = &tab[i&uint(len(tab)-1)]
		}
		last := e.last
		if last != nil && (n.has(last) || d.ups != nil && last == d.up(e) && last.given) {
			return k
		}
		a := n.at(k)
		s := uint32(0)
		if x.mode == ModeIn {
			s = isReader
		}
		a.state.Init(s)
		a.given = false
		a.put(k, size)
		a.setRef(x.ptr)
		a.setSucc(last)
		e.last = a
	}
	return int32(len(list))
}
