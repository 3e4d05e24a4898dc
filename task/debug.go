// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"log/slog"

	"weft/deps"
	"weft/task/internal/say"
)

// Debug mode (Config.Debug) keeps books on who may use what: at each spawn, at each start of a body, and at each giving
// up of accesses. What the children of one task declare is ordered by the engine; the books are for what is not: tasks
// with different parents that name one object.
//
// Such tasks are linked if each ancestor of either, below the one that they have in common, has declared the object, too, and
// no less. Where one has not, there is a gap, which is worth a warning; but the tasks may be in order for another
// reason: another object, or a Wait. So it is an error only if they are found able to run at the same time. Two facts
// make that true whenever it is reported:
//
//   - A use is opened when its task may run: after Register said so, or by the body itself. It is dropped before
//     the engine hears that it is given up. So while a use is open and not dropped, its task holds the access.
//   - All of it is under one lock of the run. So two uses that are found open are open at the same moment, and
//     nothing that the program declares, or waits for, can have ordered the tasks.
//
// The address of a use cannot mean another object: the access keeps the object alive until it is given up. An object that
// only one part of the tree names, such as memory of the parent's own, is nobody else's, and never reported.

// ErrConflict is the cause when debug mode finds two tasks that may use one object at the same time although one of
// them writes it: an ancestor of one has not declared the object, or not strongly enough.
var ErrConflict = errors.New("conflicting accesses that nothing orders")

// audit is a runtime's debug mode.
type audit struct {
	log *slog.Logger
}

// record is what debug mode knows of a task. It stays as it is when the task's memory serves another one.
type record struct {
	books  *books  // of the run
	parent *record // nil for the main task
	depth  int32
	label  string
	pc     uintptr
	says   bool   // the body calls Uses; guarded by books.mu
	uses   []*use // one for each object or range; guarded by books.mu once others may see them
	loop   int    // of a task of a recorded loop: how many uses it has declared; else -1

	undo func() // takes back the last release
}

// name says which task r is of, in a message.
func (r *record) name() string {
	if r.parent == nil {
		return "the main task (of the run at " + say.Place(r.pc) + ")"
	}
	if r.label != "" {
		return "task " + r.label + " (spawned at " + say.Place(r.pc) + ")"
	}
	return "the task spawned at " + say.Place(r.pc)
}

// object returns r's use of the object at an address; nil if it has declared none.
func (r *record) object(lo uintptr) *use {
	for _, u := range r.uses {
		if u.lo == lo && !u.slice {
			return u
		}
	}
	return nil
}

// isUnder reports whether r is of a task that is, or descends from, that of top.
func (r *record) isUnder(top *record) bool {
	for r.depth > top.depth {
		r = r.parent
	}
	return r == top
}

// note enters c, a new child of t, in the books, and warns of what it can. It returns nil for the task of
// a WaitOn, which has no body. t is nil for a main task. The uses of a task of a recorded loop are in the books
// while a run of it may use the objects.
func (a *audit) note(t, c *Task, accs []deps.Access, loop, waitOn bool) *record {
	switch {
	case t == nil:
		return &record{books: &books{audit: a}, label: c.label, pc: c.pc, loop: -1}
	case waitOn:
		return nil
	}
	parent := t.more.audited
	b := parent.books
	r := &record{books: b, parent: parent, depth: parent.depth + 1, label: c.label, pc: c.pc, loop: -1}
	if loop {
		strong := make([]deps.Access, len(accs))
		for i, x := range accs {
			strong[i] = x.Strong()
		}
		r.declare(strong)
		r.loop = len(r.uses)
		return r
	}
	mixed := r.declare(accs)
	b.mu.Lock()
	first := b.said.Get(c.pc) == nil
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
		b.said.Set(c.pc, true)
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

// begins is called by the body before anything else. The error is the body's.
func (r *record) begins() error {
	switch {
	case r == nil:
		return nil
	case r.loop >= 0:
		r.books.addAll(r)
	}
	return r.openAll()
}

// openAll says that r's task may run.
func (r *record) openAll() error {
	if r == nil || len(r.uses) == 0 {
		return nil
	}
	return r.books.openAll(r)
}

// over is called before r's task gives up its accesses. stopped: its body may not have run.
func (r *record) over(stopped bool) {
	if r == nil {
		return
	}
	if !stopped {
		r.warnIdle()
	}
	r.drop()
}

// drop takes r's uses out of the books.
func (r *record) drop() {
	if r != nil {
		r.books.drop(r)
	}
}

// release is called before r's task gives up a, and takeBack when the engine has refused that.
func (r *record) release(a deps.Access) { r.undo = r.books.release(r, a) }
func (r *record) takeBack()             { r.undo() }

// settle is called when the main task, which is r's, has waited for all.
func (r *record) settle() {
	r.books.mu.Lock()
	defer r.books.mu.Unlock()
	r.books.copies.settle()
}

// runOver is called when the run is over of which r's task was the main task.
func (r *record) runOver(failed bool) { r.books.warnCopies(failed) }

// declare makes r's uses from a list, and returns the objects that are in it in different modes.
func (r *record) declare(accs []deps.Access) (mixed []string) {
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

// Uses says that the body is about to use memory as accs say. In debug mode it panics if the task has not
// declared that, has declared it weak, or has given it up; otherwise it does nothing. It is for the places where
// a body gets at its data.
func (t *Task) Uses(accs ...deps.Access) {
	if t.run == nil || t.run.rt.probe == nil || t.run.rt.probe.audit == nil {
		return
	}
	t.enter("Uses")
	r := t.more.audited
	for _, a := range accs {
		r.saysUse(a)
		if why := r.uncovered(a); why != "" {
			panic(fmt.Sprintf("task: %s uses %v, but %s", r.name(), a, why))
		}
	}
}

// uncovered says why r's body may not use a; "" if it may.
func (r *record) uncovered(a deps.Access) string {
	b := r.books
	lo, hi, slice := a.Memory()
	mode := a.Mode().Both(a.Mode())
	if lo == hi || !known(mode) {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	strong := record{}
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
		declared, ok = own, grants(own.mode, own.weak, mode)
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
