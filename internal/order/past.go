// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import "weft/internal/addrmap"

// A tree can drop what is past, so that it does not grow with the program. A caller that asks only
// about later tasks reports which tasks have started, whose children are over, and which accesses
// no later answer needs to name. The answers are the same, except that they leave out accesses that
// others in the answer imply. A reader or a run member whose children have accessed the memory
// stays until a task writes.

// noPrevs replaces the predecessors of a run that no later question reaches.
var noPrevs = []*Run{}

// Start says that t has started: it has asked for its predecessors, and later accesses come after
// t. So no question reaches the predecessors of a writer. The predecessors of a run are asked for
// by its members that have not started; other questions go only as far as the run.
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

// startRun notes that u, a member of a run, has come after all predecessors of the run.
func (u *Entry) startRun() {
	if !u.Run.started {
		u.Run.started = true
		u.drop(u.Run.prevs)
	}
}

// drop drops the predecessors of earlier runs, since all predecessors of u's run are over.
func (u *Entry) drop(before []*Run) {
	for _, p := range before {
		if u.joins(p.last()) {
			u.drop(p.prevs)
		} else {
			p.drop(u)
		}
	}
}

// drop drops the predecessors of x, which is over, if u has all bytes of x, and goes on to those
// predecessors.
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

// seal notes that u, an access of a task that has started, has the tokens that the parent's access
// needs for these bytes: accesses after the parent's access come after u. When this is so for all
// bytes of the parent's access, that access counts as started. If other children than u may still
// ask for its tokens, it counts as a member of a run that has started.
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

// Forget says that t's children are over, and that t's later actions come after them: their chains
// are dropped. Chains of memory that t has declared stay, since later accesses come after them.
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

// Leave says that t is over, with its children, and that for each of its accesses another access of
// the run has all that the caller must know, except that t has given it up. If children have
// accessed the memory, t's access stays.
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
