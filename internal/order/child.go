// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

// Child adds a child with accesses to the tree. Accesses to the same memory become one. If the task
// has a strong Commutative access, all its accesses become strong: while the task holds that
// object, its children must not wait for memory that another holder may have.
func (t *Task) Child(list []Access) *Task {
	if t.walks == nil {
		t.walks = new(walks)
	}
	c, d := &Task{Parent: t, walks: t.walks}, &t.dom
	for _, a := range list {
		if !a.Object && a.Lo < a.Hi {
			t.Ranges()
		}
	}
	for _, a := range list { // so that pieces are the same for all accesses, and for the parent's
		if !d.ranges {
			break
		}
		for _, p := range t.Entries {
			if lo, hi := max(a.Lo, p.Lo), min(a.end(), p.Hi); lo < hi {
				d.cut(lo, hi)
			}
		}
		d.pick(a)
	}
	var cells []*cell // of c's accesses
	for _, a := range list {
		for _, cell := range d.pick(a) {
			if u := cell.own; u != nil {
				u.Mode, u.DeclaredWeak = u.Mode.Both(a.Mode), u.DeclaredWeak && a.Weak
				continue
			}
			u := &Entry{Access: a, Task: c, DeclaredWeak: a.Weak, whole: !d.ranges}
			u.Lo, u.Hi, u.Mode = cell.lo, cell.hi, a.Mode.Both(a.Mode)
			cell.own = u
			c.Entries, cells = append(c.Entries, u), append(cells, cell)
		}
	}
	takes := false
	for _, u := range c.Entries {
		takes = takes || kinds[u.Mode].exclusive && !u.DeclaredWeak
	}
	for i, u := range c.Entries {
		u.Weak = u.DeclaredWeak && !takes
		u.up(u.Lo, u.Hi, func(up *Entry, _, _ uintptr) { u.Held = u.Held || up.Held || up.Holds() })
		cells[i].add(u)
	}
	c.dom.ranges = d.ranges && len(c.Entries) > 0
	return c
}

// Ranges makes the tree know the memory of t's children by its bytes, as it does once one of them
// has declared a range.
func (t *Task) Ranges() {
	if !t.dom.ranges {
		t.dom.makeRanges()
	}
}

// add puts u at the end of the chain.
func (c *cell) add(u *Entry) {
	c.own = nil
	if len(c.last) == 1 && c.last[0].accepts(u) {
		c.last[0].add(u)
		return
	}
	x := &Run{prevs: c.last}
	c.last = []*Run{x}
	x.add(u)
	x.joinSets(u)
}
