// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"

	"weft/deps"
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

// record is what debug mode knows of a task. It stays as it is when the task's memory serves another one.
type record struct {
	parent *record // nil for the main task
	depth  int32
	label  string
	pc     uintptr
	says   bool   // the body calls Uses; guarded by books.mu
	uses   []*use // one for each object or range; guarded by books.mu once others may see them
}

// name says which task r is of, in a message.
func (r *record) name() string {
	if r.parent == nil {
		return "the main task (of the run at " + place(r.pc) + ")"
	}
	if r.label != "" {
		return "task " + r.label + " (spawned at " + place(r.pc) + ")"
	}
	return "the task spawned at " + place(r.pc)
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

// record returns t's record. Precondition: debug mode; the caller is t's body, or spawns t.
func (t *Task) record() *record {
	m := t.rare()
	if m.record == nil { // a main task's: others get theirs when they are spawned
		m.record = &record{label: t.label, pc: t.pc}
	}
	return m.record
}

// spawnNoted is the end of spawnWith in debug mode.
func (t *Task) spawnNoted(s *slot, c *Task, undeferred bool, accs []deps.Access) {
	b, r := &t.run.books, t.note(c, accs)
	spawned := false
	defer func() {
		if !spawned { // an access was refused
			b.drop(r)
		}
	}()
	if undeferred {
		t.runUndeferred(s, c, accs)
		spawned = true
		return
	}
	run := t.run
	isReady := t.start(s, c, accs) // c may be over by now
	spawned = true
	if isReady {
		if err := b.openAll(r); err != nil {
			run.fail(&Error{Label: r.label, Site: place(r.pc), Err: err})
		}
	}
}

// note enters c, a new child of t, in the books, warns of what it can, and lets c's body begin by saying that it runs.
func (t *Task) note(c *Task, accs []deps.Access) *record {
	parent := t.record()
	r := &record{parent: parent, depth: parent.depth + 1, label: c.label, pc: c.pc}
	c.rare().record = r
	mixed := r.declare(accs)
	b := &t.run.books
	b.mu.Lock()
	first := b.said.get(c.pc) == nil
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
		b.said.set(c.pc, true)
	}
	b.mu.Unlock()

	log := t.run.rt.cfg.Logger
	if first && len(mixed) > 0 {
		log.Warn("a task names an object in different modes, which make a writer", "task", r.name(), "accesses", mixed)
	}
	if bare != nil {
		log.Warn("two tasks use an object, and their accesses are not linked: "+gap, "task", r.name(), "access", bare.access.String(),
			"other", other.rec.name(), "otherAccess", other.access.String())
	}
	if fn := c.fn; len(r.uses) > 0 {
		c.fn = func(t *Task) error {
			if err := t.run.books.openAll(r); err != nil {
				return err
			}
			return fn(t)
		}
	}
	return r
}

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

// forget is called before t gives up its accesses. Precondition: flagLongSpawn.
func (t *Task) forget() {
	if t.more != nil && t.more.record != nil {
		t.warnIdle(t.more.record)
		t.run.books.drop(t.more.record)
	}
}

// Uses says that the body is about to use memory as accs say. In debug mode it panics if the task has not
// declared that, has declared it weak, or has given it up; otherwise it does nothing. It is for the places where
// a body gets at its data.
func (t *Task) Uses(accs ...deps.Access) {
	if t.Flags&flagLongSpawn == 0 || !t.run.rt.cfg.Debug {
		return
	}
	t.enter("Uses")
	for _, a := range accs {
		t.record().saysUse(&t.run.books, a)
		if why := t.record().uncovered(&t.run.books, a); why != "" {
			panic(fmt.Sprintf("task: %s uses %v, but %s", t.record().name(), a, why))
		}
	}
}

// uncovered says why r's body may not use a; "" if it may.
func (r *record) uncovered(b *books, a deps.Access) string {
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
