// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"

	"weft/deps"
	"weft/internal/xatomic"
	"weft/task/internal/addrmap"
)

// books is what debug mode knows of a run.
type books struct {
	audit   *audit
	mu      xatomic.Mutex
	live    addrmap.Map // uses of objects that are not given up, by address. +checklocks:mu
	objects useIndex    // the same, for ranges to find. +checklocks:mu
	ranges  useIndex    // uses of ranges that are not given up. +checklocks:mu
	said    addrmap.Map // program counters that were warned of. +checklocks:mu
	idle    addrmap.Map // the same, of accesses that serve nothing. +checklocks:mu
	copies  copies      // what was named so far. +checklocks:mu
}

// group is the uses of one object, or in one bucket of an index, by the children of one task. The
// engine orders them.
type group struct {
	parent *record
	uses   []*use
}

// use is what a task declares for one object, or for a range of memory.
type use struct {
	rec    *record
	lo, hi uintptr
	slice  bool
	mode   deps.Mode
	weak   bool
	access deps.Access // for messages; one of those that make up the use

	live   bool // not given up. +checklocks:books.mu
	open   bool // the task may run. +checklocks:books.mu
	used   bool // the body has said so, by Uses. +checklocks:books.mu
	below  bool // a child names a part of it. +checklocks:books.mu
	object spot // in books.live, if it is of an object. +checklocks:books.mu
	bytes  spot // in books.objects or books.ranges. +checklocks:books.mu
}

// at returns the uses of the object at an address. +checklocks:b.mu
func (b *books) at(lo uintptr) []*group {
	l, _ := b.live.Get(lo).([]*group)
	return l
}

// index returns the index that has u. +checklocks:b.mu
func (b *books) index(u *use) *useIndex {
	if u.slice {
		return &b.ranges
	}
	return &b.objects
}

// add enters u. +checklocks:b.mu
func (b *books) add(u *use) {
	u.live = true
	b.index(u).add(u)
	if u.slice {
		return
	}
	if longer := put(b.at(u.lo), u, &u.object); longer != nil {
		b.live.Set(u.lo, longer)
	}
}

// dropUse takes u out, if it is in. +checklocks:b.mu
func (b *books) dropUse(u *use) {
	if !u.live {
		return
	}
	u.live = false
	b.index(u).remove(u)
	if u.slice {
		return
	}
	moved, last := u.object.take()
	moved.object.at = u.object.at
	if last {
		without(&b.live, u.lo, b.at(u.lo), u.object.group)
	}
}

// others calls f for the live uses of memory that u uses too, by tasks with another parent, until it returns true. +checklocks:b.mu
func (b *books) others(u *use, f func(o *use) bool) {
	if !u.slice {
		for _, g := range b.at(u.lo) {
			if g.parent != u.rec.parent && slices.ContainsFunc(g.uses, f) {
				return
			}
		}
	}
	if !b.ranges.each(u, f) && u.slice {
		b.objects.each(u, f)
	}
}

func (u *use) meets(o *use) bool { return u.lo < o.hi && o.lo < u.hi }

// gap returns a live use that clashes with u and is not linked with it, and says why not. +checklocks:b.mu
func (b *books) gap(u *use) (other *use, why string) {
	if u.weak {
		return nil, ""
	}
	b.others(u, func(o *use) bool {
		if !o.weak && clash(u, o) {
			if why = unlinked(u, o); why != "" {
				other = o
			}
		}
		return other != nil
	})
	return other, why
}

// unlinked says which ancestor of u's task or of o's keeps the two from being linked; "" if they are.
func unlinked(u, o *use) string {
	for _, x := range [2][2]*use{{u, o}, {o, u}} {
		mine, others := x[0], x[1]
		for p := mine.rec.parent; p != nil && !others.rec.isUnder(p); p = p.parent {
			declared, ok := p.covers(mine, others)
			switch {
			case ok:
			case declared == nil:
				return p.name() + " has not declared it, and its descendants use it (a weak access is enough)"
			default:
				return p.name() + " has declared " + declared.access.String() + ", and its descendants do more"
			}
		}
	}
	return ""
}

// covers reports whether r's task, an ancestor of u's, has declared enough for u, as far as o uses the same memory; and if not, what it
// has declared there instead, if anything.
func (r *record) covers(u, o *use) (declared *use, ok bool) {
	if !u.slice {
		if own := r.object(u.lo); own != nil {
			return own, grants(own.mode, own.weak, u.mode)
		}
	}
	return r.coversBytes(max(u.lo, o.lo), min(u.hi, o.hi), u.mode)
}

// coversBytes is covers for the bytes from lo up to hi. Where r's task has declared several modes it is a writer.
func (r *record) coversBytes(lo, hi uintptr, m deps.Mode) (declared *use, ok bool) {
	for lo < hi {
		next := hi
		var here *use
		var mode deps.Mode
		for _, own := range r.uses {
			switch {
			case own.lo > lo:
				next = min(next, own.lo)
			case own.hi > lo:
				next = min(next, own.hi)
				if mode = own.mode; here != nil {
					mode = here.mode.Both(mode)
				}
				here = own
			}
		}
		if here == nil || !grants(mode, here.weak, m) {
			return here, false
		}
		lo = next
	}
	return nil, true
}

// grants reports whether a task that declares own may have descendants that declare m. Who has an object as Commutative
// has it for its descendants, unless it is weak.
func grants(own deps.Mode, weak bool, m deps.Mode) bool {
	return !known(own) || !known(m) || own == deps.ModeInOut || own == m || own == deps.ModeCommutative && !weak
}

// clash reports whether two tasks with these uses of one object must not run at the same time. What debug mode does not know
// the rules of, it says nothing about.
func clash(a, b *use) bool {
	return known(a.mode) && known(b.mode) && (a.mode != b.mode || a.mode == deps.ModeInOut)
}

func known(m deps.Mode) bool {
	switch m {
	case deps.ModeIn, deps.ModeOut, deps.ModeInOut, deps.ModeConcurrent, deps.ModeCommutative:
		return true
	}
	return false
}

// openAll says that r's task may run from now on. The error names a task that may as well, and should not.
func (b *books) openAll(r *record) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range r.uses {
		if u.open || !u.live || u.weak {
			continue
		}
		u.open = true
		b.others(u, func(o *use) bool {
			if o.open && clash(u, o) && !o.rec.isUnder(r) && !r.isUnder(o.rec) {
				if why := unlinked(u, o); why != "" {
					err = fmt.Errorf("%w: %v of %s and %v of %s: %s", ErrConflict, u.access, r.name(), o.access, o.rec.name(), why)
				}
			}
			return err != nil
		})
		if err != nil {
			break
		}
	}
	return err
}

func (b *books) drop(r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range r.uses {
		b.copies.over(u)
		b.dropUse(u)
	}
}

// release takes a part of what r's task uses out, and returns what brings it back.
func (b *books) release(r *record, a deps.Access) (undo func()) {
	lo, hi, slice := a.Memory()
	b.mu.Lock()
	defer b.mu.Unlock()
	before := r.uses
	var was, parts []*use
	for _, u := range before {
		object := !slice && !u.slice // known by their addresses
		if !u.live || lo >= u.hi || u.lo >= hi || object && u.lo != lo {
			continue
		}
		was = append(was, u)
		for _, part := range [2]use{{lo: u.lo, hi: lo}, {lo: hi, hi: u.hi}} {
			if !object && part.lo < part.hi {
				p := *u
				p.lo, p.hi, p.slice, p.object, p.bytes = part.lo, part.hi, true, spot{}, spot{}
				parts = append(parts, &p)
			}
		}
	}
	for _, u := range was {
		b.dropUse(u)
	}
	for _, p := range parts {
		b.add(p)
	}
	r.uses = append(slices.Clip(before), parts...)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range parts {
			b.dropUse(p)
		}
		for _, u := range was {
			b.add(u)
		}
		r.uses = before
	}
}

// addAll enters the uses that r's task, of a recorded loop, has declared, again. They were dropped at the end of the run before, with
// what Release had left of them.
func (b *books) addAll(r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.uses = r.uses[:r.loop]
	for _, u := range r.uses {
		u.open = false
		b.add(u)
	}
}
