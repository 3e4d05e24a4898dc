// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"slices"
)

// Holds reports whether n's task, or one above it, holds the object of a for its Commutative
// accesses, so that n's descendants have it. It is for the time in which n's body runs, or its
// accesses are kept.
func (n *Node) Holds(a Access) bool {
	if r := rangesOf(n); r != nil && r.own.owner == n {
		return r.own.holds(a.extent())
	}
	x := n.find(a.object())
	return x != nil && holdsBelow(x.state.Load())
}

// HoldsAny reports whether Holds is true of any object.
func (n *Node) HoldsAny() bool {
	r := rangesOf(n)
	return n.some(holdsBelow) || r != nil && r.own.owner == n && r.own.holds(0, ^uintptr(0))
}

// some reports whether one of n's accesses is in such a state.
func (n *Node) some(such func(state uint32) bool) bool {
	for i := range n.count {
		if such(n.at(i).state.Load()) {
			return true
		}
	}
	return false
}

// commute is called for a node with Commutative accesses before they are linked. If one is strong,
// all the node's accesses become strong: who holds an object waits for nothing outside (README.md,
// "Exclusion": no deadlock).
func (n *Node) commute() {
	if !n.some(isHolder) {
		return
	}
	n.rested = exclWants
	for i := range n.count {
		a := n.at(i)
		if s := a.state.Load(); s&(isWeak|isReduce) == isWeak {
			a.state.Init(s&^isWeak | saidWeak)
		}
	}
}

// Exclusive reports whether n, which may start as far as the order of accesses goes, must have
// Acquire called first: it has Commutative accesses. Only who got n from Register or NextReady may
// ask.
func (n *Node) Exclusive() bool { return n.rested == exclWants }

// Commutes reports whether n has Commutative accesses for which it must have, or has, its objects:
// whether or not Acquire is still to be called. As Exclusive, it is for who has n in hand before it
// starts.
func (n *Node) Commutes() bool { return n.rested != 0 }

// Acquire takes the objects of all of n's strong Commutative accesses together and reports whether
// it could. If not, n waits, and comes out of the NextReady of whoever gives back the last of the
// objects; it has them then, and Exclusive is false. Until Acquire returns true, or n comes out
// again, n is not the caller's any more.
//
// It is called once, by who got n from Register or NextReady, when Exclusive is true, and then or
// later, but before the task starts. Objects are given back by Release and Finish, when the
// children that use them are over as well.
func (n *Node) Acquire(f *Flow) bool {
	if n.rested != exclWants {
		panic(fmt.Sprintf("deps: Acquire of a node that is not to acquire anything (state %d)", n.rested))
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

// giveBack ends the holds that were dropped in this call, and lets those that can start do so.
func (f *Flow) giveBack() {
	if len(f.locks.dropped)+len(f.locks.bytes) > 0 {
		exclusions.giveBack(f)
	}
}

// In a domain of ranges a task takes the bytes for which it has a Commutative access, and beside
// them objects, by their addresses, as in a domain of objects: those that its Commutative accesses
// name so, and those that a task above it has declared so. Tasks of domains of objects take these.

// hold is an object that a task takes.
type hold struct {
	key    object
	lo, hi uintptr
	left   uintptr // bytes that are Commutative and not over; guarded by mu of the record
}

// commute does for the record of a task that declares list what Node.commute and the links do in a
// domain of objects: if the task takes something, all it declares is strong, and under a holder
// Commutative is InOut. It returns what the node needs: exclWants or zero. Precondition: nobody
// else can reach r.
func (r *record) commute(list []Access, d *ranges) int8 {
	m := &r.frags
	holder := false
	for p := (place{}); m.has(p); p = m.next(p) {
		holder = holder || isHolder(m.at(p).v.state)
	}
	for p := (place{}); holder && m.has(p); p = m.next(p) {
		if v := &m.at(p).v; v.state&(isWeak|isReduce) == isWeak {
			v.state = v.state&^isWeak | saidWeak
		}
	}
	if d.held != nil {
		for q := (place{}); d.held.has(q); q = d.held.next(q) {
			r.under(d.held.at(q).lo, d.held.at(q).hi)
		}
	}
	for p := (place{}); m.has(p); p = m.next(p) {
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

// under makes the bytes of [lo, hi) those of a task under a holder.
func (r *record) under(lo, hi uintptr) {
	m := &r.frags
	for p := m.seek(lo); m.has(p) && m.at(p).lo < hi; p = m.next(p) {
		p = m.narrow(p, lo, hi)
		v := &m.at(p).v
		v.state = underHolder(v.state)
	}
}

// take adds the object at key, of which r's task uses [lo, hi), to what that takes, unless all
// these bytes are otherwise used or held, or a task above has the object.
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

// drop ends the hold on the bytes of [lo, hi), each of which comes here once.
//
// +checklocks:r.mu
func (r *record) drop(lo, hi uintptr, f *Flow) {
	f.locks.dropBytes(lo, hi, r.owner)
	for i := range r.keys {
		k := &r.keys[i]
		if a, b := max(lo, k.lo), min(hi, k.hi); a < b {
			if k.left -= b - a; k.left == 0 {
				f.locks.drop(k.key, r.owner)
				k.key = nil // it was the object's last use
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
