// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package audit is debug mode: it keeps books on who may use what: at each spawn, at each start of
// a body, and at each giving up of accesses. What the children of one task declare is ordered by
// the engine; the books are for what is not: tasks with different parents that name one object.
//
// Such tasks are linked if each ancestor of either, below the one that they have in common, has
// declared the object, too, and no less. Where one has not, there is a gap, which is worth a
// warning; but the tasks may be in order for another reason: another object, or a Wait. So it is an
// error only if they are found able to run at the same time. Two facts make that true whenever it
// is reported:
//
//   - A use is opened when its task may run: after Register said so, or by the body itself. It is
//     dropped before the engine hears that it is given up. So while a use is open and not dropped,
//     its task holds the access.
//   - All of it is under one lock of the run. So two uses that are found open are open at the same
//     moment, and nothing that the program declares, or waits for, can have ordered the tasks.
//
// The address of a use cannot mean another object: the access keeps the object alive until it is
// given up. An object that only one part of the tree names, such as memory of the parent's own, is
// nobody else's, and never reported.
//
// It also looks for declarations that serve nothing: they cost order, and tell the reader something
// wrong. A weak access of which no child, down to the end of the body, names a part; and, in a body
// that says by Uses what it uses, a strong one that is neither in what it says nor named by a
// child.
package audit

import (
	"fmt"
	"log/slog"
	"slices"

	"weft/internal/chain"
	"weft/internal/order"
)

// An Audit is a runtime's debug mode.
type Audit struct {
	log *slog.Logger // gets what may be a mistake
}

// New makes an audit that warns by log.
func New(log *slog.Logger) *Audit { return &Audit{log} }

// Enter enters a task in the books, and warns of what it can. parent is the parent's record; nil
// for the main task of a run. loop: it is a task of a recorded loop, whose uses are in the books
// while a run of it may use the objects.
func (a *Audit) Enter(parent *Record, label string, pc uintptr, accs []chain.Access, loop bool) *Record {
	if parent == nil {
		return &Record{books: &books{log: a.log}, label: label, pc: pc, loop: -1}
	}
	b := parent.books
	r := &Record{books: b, parent: parent, depth: parent.depth + 1, label: label, pc: pc, loop: -1}
	if loop {
		strong := make([]chain.Access, len(accs))
		for i, x := range accs {
			strong[i] = x.Strong()
		}
		r.declare(strong)
		r.loop = len(r.uses)
		return r
	}
	mixed := r.declare(accs)
	b.mu.Lock()
	first := b.said.Get(pc) == nil
	var bare, other *use
	var gap string
	for _, u := range r.uses {
		if first && bare == nil {
			if other, gap = b.gap(u); other != nil {
				bare = u
			}
		}
		b.copies.name(u)
		b.add(u)
		parent.namedBelow(u)
	}
	if first && len(mixed) > 0 || bare != nil {
		b.said.Set(pc, true)
	}
	b.mu.Unlock()

	log := a.log
	if first && len(mixed) > 0 {
		log.Warn("a task names an object in different modes, which make a writer", "task", r.name(), "accesses", mixed)
	}
	if bare != nil {
		log.Warn("two tasks use an object, and their accesses are not linked: "+gap, "task", r.name(), "access", bare.access.String(),
			"other", other.rec.name(), "otherAccess", other.access.String())
	}
	return r
}

// Begins is called by the body before anything else. The error is the body's.
func (r *Record) Begins() error {
	if r != nil && r.loop >= 0 {
		r.books.addAll(r)
	}
	return r.OpenAll()
}

// OpenAll says that r's task may run. The error names a task that may as well, and should not.
func (r *Record) OpenAll() error {
	if r == nil || len(r.uses) == 0 {
		return nil
	}
	return r.books.openAll(r)
}

// Over is called before r's task gives up its accesses. stopped: its body may not have run.
func (r *Record) Over(stopped bool) {
	if r != nil && !stopped {
		r.warnIdle()
	}
	r.Drop()
}

// Drop takes r's uses out of the books.
func (r *Record) Drop() {
	if r != nil {
		r.books.drop(r)
	}
}

// Release is called before r's task gives up a, and TakeBack when the engine has refused that.
func (r *Record) Release(a chain.Access) { r.undo = r.books.release(r, a) }
func (r *Record) TakeBack()              { r.undo() }

// Settle is called when the main task, which is r's, has waited for all.
func (r *Record) Settle() {
	r.books.mu.Lock()
	defer r.books.mu.Unlock()
	r.books.copies.settle()
}

// RunOver is called when the run is over of which r's task was the main task. It warns, once for
// each line that spawns, of the copies that the run's tasks have named.
func (r *Record) RunOver(failed bool) {
	b := r.books
	b.mu.Lock()
	var list []finding
	if !failed {
		list = slices.DeleteFunc(b.copies.find(), func(f finding) bool {
			known := b.said.Get(f.a.first.pc) != nil
			b.said.Set(f.a.first.pc, true)
			return known
		})
	}
	b.copies = copies{}
	b.mu.Unlock()
	for _, f := range list {
		b.log.Warn(f.text, "task", f.a.first.name(), "access", fmt.Sprint(f.a.access),
			"other", f.b.first.name(), "otherAccess", fmt.Sprint(f.b.access))
	}
}

// Uses notes that r's body uses memory as accs say. It returns what is wrong with that; "" if
// nothing is.
func (r *Record) Uses(accs []chain.Access) string {
	for _, a := range accs {
		r.saysUse(a)
		if why := r.uncovered(a); why != "" {
			return fmt.Sprintf("%s uses %v, but %s", r.name(), a, why)
		}
	}
	return ""
}

// Inspect calls f with the number of uses in the books of r's run, which do not change meanwhile.
func (r *Record) Inspect(f func(live int)) {
	b := r.books
	b.mu.Lock()
	defer b.mu.Unlock()
	live := b.live.Len()
	for _, x := range [2]*useIndex{&b.objects, &b.ranges} {
		for i := range x.classes {
			live += x.classes[i].uses + x.classes[i].buckets.Len()
		}
	}
	f(live)
}

// uncovered says why r's body may not use a; "" if it may.
func (r *Record) uncovered(a chain.Access) string {
	b := r.books
	lo, hi, slice := a.Memory()
	mode := a.Mode().Both(a.Mode())
	if lo == hi || !order.Waits(mode) {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	strong := Record{}
	var other *use // in this memory, weak or given up
	for _, u := range r.uses {
		switch {
		case lo >= u.hi || u.lo >= hi || !slice && !u.slice && u.lo != lo:
		case u.live && !u.weak:
			strong.uses = append(strong.uses, u)
		default:
			other = u
		}
	}
	declared, ok := strong.coversBytes(lo, hi, mode)
	if own := strong.object(lo); own != nil && !slice { // an object is known by its address
		declared, ok = own, order.Grants(own.mode, own.weak, mode)
	}
	switch {
	case ok:
		return ""
	case declared != nil:
		return "it has declared " + declared.access.String()
	case other == nil:
		return "it has declared no access to this object"
	case other.live:
		return "it has declared " + other.access.String() + ", which is for its descendants"
	}
	return "it has given the object up by Release, or a part of it"
}

// namedBelow notes that a child of r's task declares u. +checklocks:b.mu
func (r *Record) namedBelow(u *use) {
	for _, own := range r.uses {
		if own.meets(u) {
			own.below = true
		}
	}
}

// saysUse notes that r's body uses a.
func (r *Record) saysUse(a chain.Access) {
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

// warnIdle warns, once for each line that spawns, of what r's task, which is over but for its
// descendants, has declared for nothing.
func (r *Record) warnIdle() {
	b := r.books
	b.mu.Lock()
	var idle *use
	for _, u := range r.uses {
		if order.Waits(u.mode) && !u.below && (u.weak || r.says && !u.used) && b.idle.Get(r.pc) == nil {
			idle = u
			b.idle.Set(r.pc, true)
			break
		}
	}
	b.mu.Unlock()
	switch {
	case idle == nil:
	case idle.weak:
		b.log.Warn("no child uses what it has declared: "+idle.access.String(), "task", r.name())
	default:
		b.log.Warn("a task never uses what it has declared: "+idle.access.String(), "task", r.name())
	}
}
