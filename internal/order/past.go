// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import "weft/internal/addrmap"

// What is past can be left out of the tree, so that the tree does not grow with the program. A
// caller whose questions are about what comes says which tasks have started, whose children are
// over, and of which uses nothing is to be heard any more. The answers are the same, but for what
// they imply. A reader or a member of a group stays until a task writes, if its children have used
// the memory.

// nobody is what is before a run of which nobody asks that any more.
var noPrevs = []*Run{}

// Start says that t has started: it has asked for what is before it, and what comes after t comes
// after that. So nobody asks what is before a writer. What is before a group is asked by members
// that have not started; others go no further than to the group.
func (t *Task) Start() {
	for _, u := range t.Entries {
		if !u.waits() {
			continue
		}
		switch {
		case u.writes():
			u.Run.prevs = noPrevs
		case u.joinable():
			u.startRun()
		default:
			continue
		}
		u.seal(u.joinable())
	}
}

// begins notes that u, a member of a group, has come after all that is before the group.
func (u *Entry) startRun() {
	if !u.Run.started {
		u.Run.started = true
		u.drop(u.Run.prevs)
	}
}

// drop leaves out what is before earlier groups, since all that is before u's is over.
func (u *Entry) drop(before []*Run) {
	for _, p := range before {
		if u.joins(p.last()) {
			u.drop(p.prevs)
		} else {
			p.drop(u)
		}
	}
}

// drop is drop for x, which is over, if u has all of its bytes, and for what is before x.
func (x *Run) drop(u *Entry) {
	last := x.last()
	if !last.whole && (last.Lo < u.Lo || u.Hi < last.Hi) {
		return
	}
	for _, p := range x.prevs {
		if !x.started || last.joins(p.last()) {
			p.drop(u)
		}
	}
	if x.started && x.prevs != nil {
		kept := noPrevs
		for _, p := range x.prevs {
			if last.joins(p.last()) {
				kept = append(kept, p)
			}
		}
		x.prevs = kept
	}
}

// seals notes that u, of a task that has started, has what the parent's use needs for these bytes:
// those who come after the parent's use come after u. When this is so of all its bytes, it is as if
// the parent's use had started, or, where others than u may still ask for what it needs, as if it
// were one of a group that has.
func (u *Entry) seal(shared bool) {
	u.up(u.Lo, u.Hi, func(up *Entry, lo, hi uintptr) {
		before := up.sealed
		for _, c := range u.Task.Parent.dom.meets(up, lo, hi) {
			if !c.sealed {
				c.sealed = true
				up.sealed += min(c.hi, up.Hi) - max(c.lo, up.Lo)
				up.shared = up.shared || shared
			}
		}
		switch {
		case up.sealed == before || up.sealed != up.Hi-up.Lo:
			return
		case up.writes() && !up.shared:
			up.Run.prevs = noPrevs
		case up.writes() || up.joinable():
			up.startRun()
		default:
			return
		}
		up.seal(up.shared || up.joinable())
	})
}

// Forget says that t's children are over, and that what t does from now on comes after them: their
// chains are dropped. Those of memory that t has declared stay, since others come after them.
func (t *Task) Forget() {
	d := &t.dom
	old, pieces := d.objects, d.pieces
	d.objects, d.pieces = addrmap.Map{}, nil
	old.All(func(v any) bool {
		if c := v.(*cell); t.declares(c) {
			d.objects.Set(c.lo+1, c)
		}
		return true
	})
	for _, c := range pieces {
		if t.declares(c) {
			d.pieces = append(d.pieces, c)
		}
	}
}

func (t *Task) declares(c *cell) bool {
	for _, u := range t.Entries {
		if u.Lo < c.hi && c.lo < u.Hi {
			return true
		}
	}
	return false
}

// Leave says that t is over, with its children, and that what there is to know of each of its uses
// is known by another one of the run: there is nothing but that t has given it up. If children have
// used the memory, the use stays.
func (t *Task) Leave() {
	for _, u := range t.Entries {
		if x := u.Run; !u.left && len(t.dom.meets(u, u.Lo, u.Hi)) == 0 {
			u.left = true
			if x.left++; 2*x.left > len(x.entries) {
				x.sweep()
			}
		}
	}
}
