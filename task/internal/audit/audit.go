// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

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
	log *slog.Logger // of the warnings
}

// New makes an audit that warns by log.
func New(log *slog.Logger) *Audit { return &Audit{log} }

// Enter makes the record of a task, adds its accesses to the audit of the run, and warns of the
// mistakes that show already. parent is the parent's record; nil for the main task of a run. loop:
// it is a task of a recorded loop, whose accesses are added when its body begins.
func (au *Audit) Enter(parent *Record, label string, pc uintptr, decls []chain.Access, loop bool) *Record {
	if parent == nil {
		return &Record{run: &runAudit{log: au.log}, label: label, pc: pc, loop: -1}
	}
	run := parent.run
	r := &Record{run: run, parent: parent, depth: parent.depth + 1, label: label, pc: pc, loop: -1}
	if loop {
		strong := make([]chain.Access, len(decls))
		for i, x := range decls {
			strong[i] = x.Strong()
		}
		r.declare(strong)
		r.loop = len(r.accesses)
		return r
	}
	mixed := r.declare(decls)
	run.mu.Lock()
	first := run.warned.Get(pc) == nil
	var mine, other *access
	var why string
	for _, a := range r.accesses {
		if first && mine == nil {
			if other, why = run.findUnordered(a); other != nil {
				mine = a
			}
		}
		run.copies.name(a)
		run.add(a)
		parent.noteChild(a)
	}
	if first && len(mixed) > 0 || mine != nil {
		run.warned.Set(pc, true)
	}
	run.mu.Unlock()

	log := au.log
	if first && len(mixed) > 0 {
		log.Warn("a task names an object in different modes, which make a writer", "task", r.name(), "accesses", mixed)
	}
	if mine != nil {
		log.Warn("two tasks use an object, and their accesses do not order them: "+why, "task", r.name(), "access", mine.decl.String(),
			"other", other.rec.name(), "otherAccess", other.decl.String())
	}
	return r
}

// Begins is called by the body before anything else. The error is the body's.
func (r *Record) Begins() error {
	if r != nil && r.loop >= 0 {
		r.run.addAll(r)
	}
	return r.OpenAll()
}

// OpenAll notes that r's task may run. The error names a task that may run too, and must not.
func (r *Record) OpenAll() error {
	if r == nil || len(r.accesses) == 0 {
		return nil
	}
	return r.run.openAll(r)
}

// Over is called before r's task gives up its accesses. stopped: its body may not have run.
func (r *Record) Over(stopped bool) {
	if r != nil && !stopped {
		r.warnIdle()
	}
	r.Drop()
}

// Drop takes r's accesses out of the audit.
func (r *Record) Drop() {
	if r != nil {
		r.run.dropAll(r)
	}
}

// Release is called before r's task gives up decl, and TakeBack after the engine has refused that.
func (r *Record) Release(decl chain.Access) { r.undo = r.run.release(r, decl) }
func (r *Record) TakeBack()                 { r.undo() }

// Settle is called when the main task, which is r's, has waited for all tasks.
func (r *Record) Settle() {
	r.run.mu.Lock()
	defer r.run.mu.Unlock()
	r.run.copies.settle()
}

// RunOver is called when a run is over; r is the record of its main task. It warns, once for each
// line that spawns, of the copies that the run's tasks have named.
func (r *Record) RunOver(failed bool) {
	run := r.run
	run.mu.Lock()
	var list []finding
	if !failed {
		list = slices.DeleteFunc(run.copies.find(), func(f finding) bool {
			known := run.warned.Get(f.a.first.pc) != nil
			run.warned.Set(f.a.first.pc, true)
			return known
		})
	}
	run.copies = copies{}
	run.mu.Unlock()
	for _, f := range list {
		run.log.Warn(f.text, "task", f.a.first.name(), "access", fmt.Sprint(f.a.decl),
			"other", f.b.first.name(), "otherAccess", fmt.Sprint(f.b.decl))
	}
}

// Uses notes that r's body uses memory as decls say. It returns why the body may not do that; "" if
// it may.
func (r *Record) Uses(decls []chain.Access) string {
	for _, decl := range decls {
		r.noteUse(decl)
		if why := r.uncovered(decl); why != "" {
			return fmt.Sprintf("%s uses %v, but %s", r.name(), decl, why)
		}
	}
	return ""
}

// Inspect calls f with the number of entries in the audit of r's run, which does not change
// meanwhile. It is for tests.
func (r *Record) Inspect(f func(live int)) {
	run := r.run
	run.mu.Lock()
	defer run.mu.Unlock()
	live := run.live.Len()
	for _, x := range [2]*accessIndex{&run.objects, &run.ranges} {
		for i := range x.classes {
			live += x.classes[i].accesses + x.classes[i].buckets.Len()
		}
	}
	f(live)
}

// uncovered returns why r's body may not use memory as decl says; "" if it may.
func (r *Record) uncovered(decl chain.Access) string {
	run := r.run
	lo, hi, slice := decl.Memory()
	mode := decl.Mode().Both(decl.Mode())
	if lo == hi || !order.Waits(mode) {
		return ""
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	strong := Record{}
	var other *access // to this memory, weak or given up
	for _, a := range r.accesses {
		switch {
		case lo >= a.hi || a.lo >= hi || !slice && !a.slice && a.lo != lo:
		case a.live && !a.weak:
			strong.accesses = append(strong.accesses, a)
		default:
			other = a
		}
	}
	own, ok := strong.coversBytes(lo, hi, mode)
	if x := strong.object(lo); x != nil && !slice { // an object is known by its address
		own, ok = x, order.Grants(x.mode, x.weak, mode)
	}
	switch {
	case ok:
		return ""
	case own != nil:
		return "it has declared " + own.decl.String()
	case other == nil:
		return "it has declared no access to this object"
	case other.live:
		return "it has declared " + other.decl.String() + ", which is for its descendants"
	}
	return "it has given the object up by Release, or a part of it"
}

// noteChild notes that a child of r's task declares a. +checklocks:r.run.mu
func (r *Record) noteChild(a *access) {
	for _, own := range r.accesses {
		if own.meets(a) {
			own.byChild = true
		}
	}
}

// noteUse notes that r's body uses memory as decl says.
func (r *Record) noteUse(decl chain.Access) {
	lo, hi, _ := decl.Memory()
	r.run.mu.Lock()
	defer r.run.mu.Unlock()
	r.callsUses = true
	for _, a := range r.accesses {
		if a.lo < hi && lo < a.hi {
			a.used = true
		}
	}
}

// warnIdle warns, once for each line that spawns, of an access that r's task has declared for no
// purpose. The task's body and events are over.
func (r *Record) warnIdle() {
	run := r.run
	run.mu.Lock()
	var idle *access
	for _, a := range r.accesses {
		if order.Waits(a.mode) && !a.byChild && (a.weak || r.callsUses && !a.used) && run.warnedIdle.Get(r.pc) == nil {
			idle = a
			run.warnedIdle.Set(r.pc, true)
			break
		}
	}
	run.mu.Unlock()
	switch {
	case idle == nil:
	case idle.weak:
		run.log.Warn("no child uses what it has declared: "+idle.decl.String(), "task", r.name())
	default:
		run.log.Warn("a task never uses what it has declared: "+idle.decl.String(), "task", r.name())
	}
}
