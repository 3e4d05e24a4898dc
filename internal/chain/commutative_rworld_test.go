// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import "weft/internal/chain"

// Exclusion in the model of ranges: each byte is an object (commutative_world_test.go). The test
// asks the engine which bytes are reserved, since the engine counts how often a task is passed by
// pieces, not by bytes.

func (t *rtask) exclusive() (list []*taskAccess) {
	for _, u := range t.m.accs {
		if u.holds() {
			list = append(list, u)
		}
	}
	return list
}

// admit starts t, which is ready by the order of accesses, or lets it wait for its bytes.
func (w *rworld) admit(t *rtask) {
	if want := t.queued == 0 && len(t.exclusive()) > 0; t.node.Exclusive() != want {
		w.fail("task %s: Exclusive is %v", t.name, !want)
		return
	}
	if t.node.Exclusive() && !t.node.Acquire(&w.flow) {
		w.queues++
		t.queued = w.queues
		return
	}
	w.start(t)
}

// reserve notes the tasks with reserved bytes, before a step of the program.
func (w *rworld) reserve() {
	for _, t := range w.tasks {
		t.reserved = t.state == waiting && t.queued != 0 && chain.Reserved(t.node)
	}
}

// inTheWay calls f with the tasks, other than t, that hold a byte that t takes, or have waited
// longer for one.
func (w *rworld) inTheWay(t *rtask, f func(o *rtask, holds bool)) {
	for _, u := range t.exclusive() {
		for _, o := range w.tasks {
			x := o.m.find(u.obj)
			switch {
			case o == t || x == nil || !x.holds():
			case o.state != waiting && !x.gone():
				f(o, true)
			case o.state == waiting && o.queued != 0 && (t.queued == 0 || o.queued < t.queued):
				f(o, false)
			}
		}
	}
}

// excluded reports whether t has a reason to wait for its bytes.
func (w *rworld) excluded(t *rtask) (found bool) {
	w.inTheWay(t, func(o *rtask, holds bool) { found = found || holds || chain.Reserved(o.node) })
	for _, o := range w.tasks {
		found = found || o != t && t.sharesName(o)
	}
	return found && t.queued != 0
}

// sharesName reports whether t and o have named one variable Commutative of which they take
// different bytes. Such tasks exclude each other by its address. The model does not cover the end
// of that exclusion, which is where a task uses some bytes of the variable in another mode.
func (t *rtask) sharesName(o *rtask) bool {
	for _, d := range t.named {
		for _, e := range o.named {
			if d.lo == e.lo && (len(t.partsOf(d)) < d.hi-d.lo || len(o.partsOf(d)) < d.hi-d.lo) {
				return o.state != waiting || o.queued != 0
			}
		}
	}
	return false
}

func (t *rtask) partsOf(d rdecl) (list []*taskAccess) {
	for _, u := range t.exclusive() {
		if d.lo <= u.obj && u.obj < d.hi {
			list = append(list, u)
		}
	}
	return list
}

// checkExclusion checks a task that starts.
func (w *rworld) checkExclusion(t *rtask) {
	w.inTheWay(t, func(o *rtask, holds bool) {
		switch {
		case holds:
			w.fail("task %s starts while %s holds a byte", t.name, o.name)
		case o.reserved:
			w.fail("task %s overtakes %s once too often", t.name, o.name)
		}
	})
}
