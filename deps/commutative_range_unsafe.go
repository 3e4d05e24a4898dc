// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"slices"
	"unsafe"
)

// In a domain of ranges each Commutative access is a group of its own: it is ordered as a writer is. The task
// takes the object all the same, by its address, since tasks of other domains may name it Commutative.

// hold is an object that a task takes.
type hold struct {
	key    unsafe.Pointer
	lo, hi uintptr
	left   uintptr // bytes that are Commutative and not over; guarded by mu of the record
}

// groupOfBytes is sameGroup in a domain of ranges.
func groupOfBytes(s, t uint32) bool { return s&t&isGroup != 0 && (s|t)&isCommut == 0 }

// holdBytes notes that [lo, hi) is held by the parent or a task above it.
func (r *ranges) holdBytes(lo, hi uintptr) {
	if r.held == nil {
		r.held = new(spans[none])
	}
	r.held.replace(lo, hi, none{})
}

// commute does for the record of a task that declares list what Node.commute and the links do in a domain of objects: if the task
// takes something, all it declares is strong, and under a holder Commutative is InOut. An object of which a task above holds a part
// is held. It returns what the node needs: exclWants or zero. Precondition: nobody else can reach r.
func (r *record) commute(list []Access, held *spans[none], keys []unsafe.Pointer) int32 {
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
	if held != nil {
		for q := (place{}); held.has(q); q = held.next(q) {
			r.under(held.at(q).lo, held.at(q).hi)
		}
	}
	for _, x := range list {
		if x.Mode() == ModeCommutative && slices.Contains(keys, x.ptr) {
			r.under(x.extent())
		}
	}
	for _, x := range list {
		if x.mode == ModeCommutative {
			r.take(x)
		}
	}
	if len(r.keys) > 0 {
		return exclWants
	}
	return 0
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

// take adds x, a Commutative access of r's task, to what that takes, unless all its bytes are otherwise used or held.
func (r *record) take(x Access) {
	h := hold{key: x.ptr}
	h.lo, h.hi = x.extent()
	for i := range r.keys {
		if k := &r.keys[i]; k.key == h.key {
			if k.hi >= h.hi {
				return
			}
			k.hi, k.left = h.hi, r.bytesHeld(k.lo, h.hi)
			return
		}
	}
	if h.left = r.bytesHeld(h.lo, h.hi); h.left > 0 {
		r.keys = append(r.keys, h)
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
		held = held || v != nil && (v.state&isHeld != 0 || isHolder(v.state))
	})
	return held
}
