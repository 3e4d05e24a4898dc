// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/deps"

// Debug mode also looks for declarations that serve nothing: they cost order, and tell the reader something wrong. A weak access of which no
// child, down to the end of the body, names a part; and, in a body that says by Uses what it uses, a strong one that is neither
// in what it says nor named by a child.

// namedBelow notes that a child of r's task declares u. +checklocks:b.mu
func (r *record) namedBelow(u *use) {
	for _, own := range r.uses {
		if own.meets(u) {
			own.below = true
		}
	}
}

// saysUse notes that r's body uses a.
func (r *record) saysUse(a deps.Access) {
	b := r.books
	lo, hi, _ := a.Memory()
	b.mu.Lock()
	defer b.mu.Unlock()
	r.says = true
	for _, u := range r.uses {
		if u.lo < hi && lo < u.hi {
			u.used = true
		}
	}
}

// warnIdle warns, once for each line that spawns, of what r's task, which is over but for its descendants, has declared for nothing.
func (r *record) warnIdle() {
	b := r.books
	b.mu.Lock()
	var idle *use
	for _, u := range r.uses {
		if known(u.mode) && !u.below && (u.weak || r.says && !u.used) {
			idle = u
			break
		}
	}
	if idle == nil || b.idle.Get(r.pc) != nil {
		b.mu.Unlock()
		return
	}
	b.idle.Set(r.pc, true)
	b.mu.Unlock()
	why := "a task never uses what it has declared"
	if idle.weak {
		why = "no child uses what it has declared"
	}
	b.audit.log.Warn(why+": "+idle.access.String(), "task", r.name())
}
