// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"

	"weft/internal/chain"
	"weft/internal/order"
	"weft/task/internal/say"
)

// A Record is what debug mode knows of a task. It stays as it is when the task's memory serves
// another one.
type Record struct {
	books  *books  // of the run
	parent *Record // nil for the main task
	depth  int32
	label  string
	pc     uintptr
	says   bool   // the body calls Uses; guarded by books.mu
	uses   []*use // one for each object or range; guarded by books.mu once others may see them
	loop   int    // of a task of a recorded loop: how many uses it has declared; else -1

	undo func() // takes back the last release
}

// name says which task r is of, in a message.
func (r *Record) name() string {
	if r.parent == nil {
		return "the main task (of the run at " + say.Position(r.pc) + ")"
	}
	if r.label != "" {
		return "task " + r.label + " (spawned at " + say.Position(r.pc) + ")"
	}
	return "the task spawned at " + say.Position(r.pc)
}

// object returns r's use of the object at an address; nil if it has declared none.
func (r *Record) object(lo uintptr) *use {
	for _, u := range r.uses {
		if u.lo == lo && !u.slice {
			return u
		}
	}
	return nil
}

// isUnder reports whether r is of a task that is, or descends from, that of top.
func (r *Record) isUnder(top *Record) bool {
	for r.depth > top.depth {
		r = r.parent
	}
	return r == top
}

// use is what a task declares for one object, or for a range of memory.
type use struct {
	rec    *Record
	lo, hi uintptr
	slice  bool
	mode   chain.Mode
	weak   bool
	access chain.Access // for messages; one of those that make up the use

	live   bool // not given up. +checklocks:books.mu
	open   bool // the task may run. +checklocks:books.mu
	used   bool // the body has said so, by Uses. +checklocks:books.mu
	below  bool // a child names a part of it. +checklocks:books.mu
	object spot // in books.live, if it is of an object. +checklocks:books.mu
	bytes  spot // in books.objects or books.ranges. +checklocks:books.mu
}

func (u *use) meets(o *use) bool { return u.lo < o.hi && o.lo < u.hi }

// declare makes r's uses from a list, and returns the objects that are in it in different modes.
func (r *Record) declare(accs []chain.Access) (mixed []string) {
	for _, a := range accs {
		lo, hi, slice := a.Memory()
		if lo == hi {
			continue
		}
		mode := a.Mode().Both(a.Mode())
		if u := r.object(lo); u != nil && !slice {
			if u.mode != mode {
				mixed = append(mixed, fmt.Sprintf("%v and %v", u.access, a))
			}
			u.mode, u.weak, u.hi = u.mode.Both(mode), u.weak && a.IsWeak(), max(u.hi, hi)
			continue
		}
		r.uses = append(r.uses, &use{rec: r, lo: lo, hi: hi, slice: slice, mode: mode, weak: a.IsWeak(), access: a})
	}
	return mixed
}

// unlinked says which ancestor of u's task or of o's keeps the two from being linked; "" if they
// are.
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

// covers reports whether r's task, an ancestor of u's, has declared enough for u, as far as o uses
// the same memory; and if not, what it has declared there instead, if anything.
func (r *Record) covers(u, o *use) (declared *use, ok bool) {
	if !u.slice {
		if own := r.object(u.lo); own != nil {
			return own, order.Grants(own.mode, own.weak, u.mode)
		}
	}
	return r.coversBytes(max(u.lo, o.lo), min(u.hi, o.hi), u.mode)
}

// coversBytes is covers for the bytes from lo up to hi. Where r's task has declared several modes
// it is a writer.
func (r *Record) coversBytes(lo, hi uintptr, m chain.Mode) (declared *use, ok bool) {
	for lo < hi {
		next := hi
		var here *use
		var mode chain.Mode
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
		if here == nil || !order.Grants(mode, here.weak, m) {
			return here, false
		}
		lo = next
	}
	return nil, true
}

// group is the uses of one object, or in one bucket of an index, by the children of one task. The
// engine orders them.
type group struct {
	parent *Record
	uses   []*use
}

// spot is where a list has a use.
type spot struct {
	group *group
	at    int
}
