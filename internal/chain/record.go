// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"weft/internal/xatomic"
)

// A record has all accesses of one task in a domain of ranges, byte by byte. It is for a byte what
// an [access] is for an object, with the same state word and the same effects. Adjacent bytes in
// the same state are one fragment. Messages between records carry an interval.
//
// A record never serves a second task, so late messages do no harm (README.md, "Ranges").
type record struct {
	mu xatomic.Mutex

	// Guarded by mu once the record is published.
	frags spans[frag]
	// number of strong bytes that may not start yet, plus one while the task is being registered
	wait  uintptr
	keys  []hold   // objects that the task holds while it runs, besides bytes (commutative.go)
	bytes []extent // bytes that the task takes; constant

	owner *Node // constant; nil for a gate or sink; not used once the task is retired
	sink  *sink // constant; not nil for the record of a sink
}

// frag is the state of some bytes. Parts of it that have no effect any more are made equal, so that
// fragments which differ in nothing else can be joined: a link over which the write token has gone
// is dropped, and the write token sets all bits that it implies.
type frag struct {
	state uint32
	succ  *record // valid if hasNext
	child *record // valid if hasChild
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

// deliverNext takes a message from the work list and delivers it. Messages that follow from it go
// on the work list, so there is no recursion, and only one record is locked at a time.
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

// add sets bits in the state of the bytes of r in [lo, hi), and puts the messages that follow on
// the work list. It reports whether the task may start by that.
//
// +checklocks:r.mu
func (r *record) add(lo, hi uintptr, bits uint32, f *Flow) bool {
	m := &r.frags
	var open uintptr
	for p := m.search(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		if has := m.at(p).v.state; has&bits == bits {
			continue
		}
		p = m.narrow(p, lo, hi)
		s := m.at(p)
		old := s.v.state
		s.v.state |= bits
		if bits&hasW != 0 {
			s.v.state |= hasR | hasOpen
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

// carry puts the messages of the effects e of the bytes of s on the work list, and reports whether
// these bytes let the task start.
//
// +checklocks:r.mu
func (r *record) carry(s *span[frag], e uint32, f *Flow) bool {
	v := &s.v
	if e&unlock != 0 {
		r.drop(s.lo, s.hi, f)
	}
	if e&(childR|childW|childOpen) != 0 {
		if r.sink != nil {
			r.sink.pass(s.lo, s.hi, e, f)
		} else {
			b := e & childR / childR * hasR
			if e&childOpen != 0 {
				b |= hasOpen
			}
			if e&childW != 0 {
				b = hasW
			}
			emit(f, v.child, s.lo, s.hi, b)
		}
		if e&childW != 0 {
			v.child = nil
			v.state &^= hasChild | childInRun
		}
	}
	if e&(sendR|sendW|sendOpen) != 0 {
		b := e & sendR / sendR * hasR
		if e&sendW != 0 {
			b = hasW
		}
		if v.state&nextUp != 0 {
			b *= toOut
		} else if e&sendOpen != 0 && b&hasW == 0 {
			b |= hasOpen
		}
		emit(f, v.succ, s.lo, s.hi, b)
		if e&sendW != 0 {
			v.succ = nil
			v.state &^= hasNext | nextUp | nextInRun
		}
	}
	return e&ready != 0 && v.state&isWeak == 0
}

// settle joins fragments if there are many.
//
// +checklocks:r.mu
func (r *record) settle() {
	if r.frags.crowded() {
		r.frags.tidy(func(*span[frag]) bool { return true }, func(a, b *frag) bool { return *a == *b })
	}
}

// follow makes next the successor of r in [lo, hi), where r is the last record of its domain. as is
// the state of next's access, or nextUp if next has the parent's declarations. The messages that r
// passes on at once go on the work list.
//
// Bytes that are over are not linked: no more messages will come from them.
func (r *record) follow(lo, hi uintptr, next *record, as uint32, f *Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.frags
	for p := m.search(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
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
		case sameRun(old, as):
			s.v.state |= nextInRun
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
	for p := m.search(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
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
		if sameRun(old, as) {
			s.v.state |= childInRun
		}
		r.carry(s, effects(s.v.state)&^effects(old), f)
	}
	r.settle()
}

// all reports whether the states of all bytes of r in [lo, hi) satisfy such.
func (r *record) all(lo, hi uintptr, such func(state uint32) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.frags
	for p := m.search(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		if !such(m.at(p).v.state) {
			return false
		}
	}
	return true
}

// tell delivers the messages of sinks to accesses. The caller has no lock.
func (f *Flow) tell() {
	for k := len(f.outs) - 1; k >= 0; k-- {
		o := f.outs[k]
		f.outs[k] = out{}
		f.outs = f.outs[:k]
		f.push(o.a, o.bits)
	}
}
