// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"

	"weft/internal/chain"
	"weft/internal/order"
	"weft/task/internal/say"
)

// A Record is what debug mode knows of a task. It stays valid when the task's memory serves another
// task.
type Record struct {
	run       *runAudit
	parent    *Record // nil for the main task
	depth     int32
	label     string
	pc        uintptr
	callsUses bool      // the body calls Uses; guarded by run.mu
	accesses  []*access // one for each object or range; guarded by run.mu once others may see them
	loop      int       // of a task of a recorded loop: how many accesses it has declared; else -1

	undo func() // takes back the last release
}

// name names r's task in a message.
func (r *Record) name() string {
	if r.parent == nil {
		return "the main task (of the run at " + say.Position(r.pc) + ")"
	}
	if r.label != "" {
		return "task " + r.label + " (spawned at " + say.Position(r.pc) + ")"
	}
	return "the task spawned at " + say.Position(r.pc)
}

// object returns r's access to the object at an address; nil if r has declared none.
func (r *Record) object(lo uintptr) *access {
	for _, a := range r.accesses {
		if a.lo == lo && !a.slice {
			return a
		}
	}
	return nil
}

// isUnder reports whether r's task is top's task, or descends from it.
func (r *Record) isUnder(top *Record) bool {
	for r.depth > top.depth {
		r = r.parent
	}
	return r == top
}

// access is what a task declares for one object, or for a range of memory.
type access struct {
	rec    *Record
	lo, hi uintptr
	slice  bool
	mode   chain.Mode
	weak   bool
	decl   chain.Access // for messages: the first declaration of those that it combines

	live    bool // not given up. +checklocks:runAudit.mu
	open    bool // the task may run. +checklocks:runAudit.mu
	used    bool // the body has stated a use of it, by Uses. +checklocks:runAudit.mu
	byChild bool // a child names a part of it. +checklocks:runAudit.mu
	object  spot // in runAudit.live, if it is to an object. +checklocks:runAudit.mu
	bytes   spot // in runAudit.objects or runAudit.ranges. +checklocks:runAudit.mu
}

func (a *access) meets(b *access) bool { return a.lo < b.hi && b.lo < a.hi }

// declare makes r's accesses from declarations, and returns the objects that these name in
// different modes.
func (r *Record) declare(decls []chain.Access) (mixed []string) {
	for _, decl := range decls {
		lo, hi, slice := decl.Memory()
		if lo == hi {
			continue
		}
		mode := decl.Mode().Both(decl.Mode())
		if a := r.object(lo); a != nil && !slice {
			if a.mode != mode {
				mixed = append(mixed, fmt.Sprintf("%v and %v", a.decl, decl))
			}
			a.mode, a.weak, a.hi = a.mode.Both(mode), a.weak && decl.IsWeak(), max(a.hi, hi)
			continue
		}
		r.accesses = append(r.accesses, &access{rec: r, lo: lo, hi: hi, slice: slice, mode: mode, weak: decl.IsWeak(), decl: decl})
	}
	return mixed
}

// unordered returns why a and b do not order their tasks: which ancestor of one of the tasks keeps
// the two from being linked. It returns "" if they are linked.
func unordered(a, b *access) string {
	for _, x := range [2][2]*access{{a, b}, {b, a}} {
		mine, others := x[0], x[1]
		for p := mine.rec.parent; p != nil && !others.rec.isUnder(p); p = p.parent {
			own, ok := p.covers(mine, others)
			switch {
			case ok:
			case own == nil:
				return p.name() + " has not declared it, and its descendants use it (a weak access is enough)"
			default:
				return p.name() + " has declared " + own.decl.String() + ", and its descendants do more"
			}
		}
	}
	return ""
}

// covers reports whether r's task, an ancestor of a's, has declared enough for a, in the memory
// that b uses too; and if not, what it has declared there instead, if anything.
func (r *Record) covers(a, b *access) (own *access, ok bool) {
	if !a.slice {
		if own := r.object(a.lo); own != nil {
			return own, order.Grants(own.mode, own.weak, a.mode)
		}
	}
	return r.coversBytes(max(a.lo, b.lo), min(a.hi, b.hi), a.mode)
}

// coversBytes is covers for the bytes from lo up to hi. Where r's task has declared several modes,
// it is a writer.
func (r *Record) coversBytes(lo, hi uintptr, m chain.Mode) (own *access, ok bool) {
	for lo < hi {
		next := hi
		var here *access
		var mode chain.Mode
		for _, a := range r.accesses {
			switch {
			case a.lo > lo:
				next = min(next, a.lo)
			case a.hi > lo:
				next = min(next, a.hi)
				if mode = a.mode; here != nil {
					mode = here.mode.Both(mode)
				}
				here = a
			}
		}
		if here == nil || !order.Grants(mode, here.weak, m) {
			return here, false
		}
		lo = next
	}
	return nil, true
}

// group is the accesses to one object, or in one bucket of an index, of the children of one task.
// The engine orders them.
type group struct {
	parent   *Record
	accesses []*access
}

// spot is the position of an access in a group.
type spot struct {
	group *group
	at    int
}
