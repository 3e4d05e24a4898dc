// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"slices"
)

// Holds reports whether n's task, or one above it, holds the object of a for its Commutative
// accesses, so that n's descendants need not take it. It may be called while n's body runs, or
// while its accesses are kept.
func (n *Node) Holds(a Access) bool {
	if r := rangesOf(n); r != nil && r.own.owner == n {
		return r.own.holds(a.extent())
	}
	x := n.find(a.object())
	return x != nil && holdsBelow(x.state.Load())
}

// HoldsAny reports whether Holds is true for any object.
func (n *Node) HoldsAny() bool {
	r := rangesOf(n)
	return n.some(holdsBelow) || r != nil && r.own.owner == n && r.own.holds(0, ^uintptr(0))
}

// some reports whether the state of one of n's accesses satisfies such.
func (n *Node) some(such func(state uint32) bool) bool {
	for i := range n.count {
		if such(n.at(i).state.Load()) {
			return true
		}
	}
	return false
}

// commute is called for a node with Commutative accesses before they are linked. If one of them is
// strong, it makes all the node's accesses strong: a holder must not wait for tasks outside
// (README.md, "Exclusion", no deadlock).
func (n *Node) commute() {
	if !n.some(isHolder) {
		return
	}
	n.rested = exclWants
	for i := range n.count {
		a := n.at(i)
		if s := a.state.Load(); s&(isWeak|isReduce) == isWeak {
			a.state.Init(s&^isWeak | declaredWeak)
		}
	}
}

// Exclusive reports whether Acquire must be called before n, which is ready, starts: it has
// Commutative accesses. Only the goroutine that got n from Register or NextReady may call it.
func (n *Node) Exclusive() bool { return n.rested == exclWants }

// Commutes reports whether n has Commutative accesses that need exclusion, before or after Acquire.
// As for Exclusive, only the goroutine that has n in hand before n starts may call it.
func (n *Node) Commutes() bool { return n.rested != 0 }

// Acquire takes the objects of all of n's strong Commutative accesses together, and reports whether
// it could. If not, n waits: it becomes ready a second time, in the Flow of the goroutine that
// gives back the last of the objects. It then holds them, and Exclusive is false. When Acquire
// returns false the caller no longer owns n, until NextReady returns it again.
//
// The goroutine that got n from Register or NextReady calls Acquire once if Exclusive is true, at
// once or later, but before the task starts. Release and Finish give the objects back, when the
// children that use them are over as well.
func (n *Node) Acquire(f *Flow) bool {
	if n.rested != exclWants {
		panic(fmt.Sprintf("deps: Acquire of a node that needs no exclusion (state %d)", n.rested))
	}
	l := &f.locks
	for i := range n.count {
		if a := n.at(i); isHolder(a.state.Load()) {
			l.keys = append(l.keys, a.ref())
		}
	}
	var bytes []extent
	if r := rangesOf(n); r != nil {
		for i := range r.own.keys {
			l.keys = append(l.keys, r.own.keys[i].key)
		}
		bytes = r.own.bytes
	}
	set := uint64(0)
	for _, key := range l.keys {
		set |= 1 << shardOf(key)
	}
	if len(bytes) > 0 {
		set |= 1 << byteShard
	}
	ok := exclusions.acquire(n, l.keys, bytes, set)
	clear(l.keys) // keeps nothing alive
	l.keys = l.keys[:0]
	return ok
}

// giveBack gives back the objects and bytes whose holds ended in this call, and makes ready the
// nodes that get them.
func (f *Flow) giveBack() {
	if len(f.locks.dropped)+len(f.locks.bytes) > 0 {
		exclusions.giveBack(f)
	}
}

// In a domain of ranges a task takes the bytes for which it has a Commutative access. Besides, it
// takes objects, by their addresses, as in a domain of objects: those that its own Commutative
// accesses name as objects, and those that a task above it has declared so. Tasks of domains of
// objects take these.

// hold is an object that a task of a domain of ranges takes.
type hold struct {
	key    object
	lo, hi uintptr
	left   uintptr // number of bytes that are Commutative and not over; guarded by mu of the record
}

// commute does for the record of a task that declares list what Node.commute and linking do in a
// domain of objects: if the task takes anything, all its accesses are strong; below a holder,
// Commutative is InOut. It returns what the node needs: exclWants or zero. Precondition: no other
// goroutine can reach r.
func (r *record) commute(list []Access, d *ranges) int8 {
	m := &r.frags
	holder := false
	for p := (cursor{}); m.has(p); p = m.next(p) {
		holder = holder || isHolder(m.at(p).v.state)
	}
	for p := (cursor{}); holder && m.has(p); p = m.next(p) {
		if v := &m.at(p).v; v.state&(isWeak|isReduce) == isWeak {
			v.state = v.state&^isWeak | declaredWeak
		}
	}
	if d.held != nil {
		for q := (cursor{}); d.held.has(q); q = d.held.next(q) {
			r.under(d.held.at(q).lo, d.held.at(q).hi)
		}
	}
	for p := (cursor{}); m.has(p); p = m.next(p) {
		s := m.at(p)
		if !isHolder(s.v.state) {
			continue
		}
		if k := len(r.bytes); k > 0 && r.bytes[k-1].hi == s.lo {
			r.bytes[k-1].hi = s.hi
		} else {
			r.bytes = append(r.bytes, extent{s.lo, s.hi})
		}
	}
	if len(r.bytes) == 0 {
		return 0
	}
	for _, x := range list {
		if x.mode != ModeCommutative {
			continue
		}
		lo, hi := x.extent()
		if !x.isRange() {
			r.take(x.ptr, lo, hi, d)
		}
		for _, o := range d.shared {
			if o.lo < hi && lo < o.hi {
				r.take(o.key, max(lo, o.lo), min(hi, o.hi), d)
			}
		}
	}
	return exclWants
}

// under marks the bytes [lo, hi) as held by a task above.
func (r *record) under(lo, hi uintptr) {
	m := &r.frags
	for p := m.search(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		p = m.narrow(p, lo, hi)
		v := &m.at(p).v
		v.state = underHolder(v.state)
	}
}

// take adds the object at key, of which r's task uses [lo, hi), to the objects that the task takes.
// It does not if none of these bytes needs exclusion, or if a task above has the object.
func (r *record) take(key object, lo, hi uintptr, d *ranges) {
	if slices.Contains(d.heldKeys, key) {
		return
	}
	for i := range r.keys {
		if k := &r.keys[i]; k.key == key {
			k.lo, k.hi = min(k.lo, lo), max(k.hi, hi)
			k.left = r.bytesHeld(k.lo, k.hi)
			return
		}
	}
	if n := r.bytesHeld(lo, hi); n > 0 {
		r.keys = append(r.keys, hold{key, lo, hi, n})
	}
}

func (r *record) bytesHeld(lo, hi uintptr) (n uintptr) {
	r.frags.walk(lo, hi, func(lo, hi uintptr, v *frag) {
		if v != nil && isHolder(v.state) {
			n += hi - lo
		}
	})
	return n
}

// drop ends the hold on the bytes [lo, hi). It is called once for each byte.
//
// +checklocks:r.mu
func (r *record) drop(lo, hi uintptr, f *Flow) {
	f.locks.dropBytes(lo, hi, r.owner)
	for i := range r.keys {
		k := &r.keys[i]
		if a, b := max(lo, k.lo), min(hi, k.hi); a < b {
			if k.left -= b - a; k.left == 0 {
				f.locks.drop(k.key, r.owner)
				k.key = nil // the object is not needed any more
			}
		}
	}
}

// holds reports whether a byte of [lo, hi) is held.
func (r *record) holds(lo, hi uintptr) (held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frags.walk(lo, hi, func(_, _ uintptr, v *frag) {
		held = held || v != nil && holdsBelow(v.state)
	})
	return held
}
