// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import "weft/internal/chain"

// Exclusion in the model: a walk of all tasks finds the holder of an object. The engine chooses
// among several waiters, within three rules: an object has one holder at a time; a task that waits
// has a reason; no task takes an object that is reserved for an older one.

// exclusive returns the accesses whose objects t must hold to run.
func (t *mtask) exclusive() (list []*taskAccess) {
	for _, u := range t.accs {
		if u.holds() {
			list = append(list, u)
		}
	}
	return list
}

// admit starts t, which is ready by the order of accesses, or lets it wait for its objects.
func (w *world) admit(t *wtask) {
	if want := t.queued == 0 && len(t.m.exclusive()) > 0; t.node.Exclusive() != want {
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

// holder returns the task that holds the object, other than t.
func (w *world) holder(t *wtask, obj int) *wtask {
	for _, o := range w.tasks {
		if o == t || o.state == waiting {
			continue
		}
		if x := o.m.find(obj); x != nil && x.holds() && !x.gone() {
			return o
		}
	}
	return nil
}

// older calls f with the tasks that have waited for the object longer than t.
func (w *world) older(t *wtask, obj int, f func(o *wtask)) {
	for _, o := range w.tasks {
		if o.state != waiting || o.queued == 0 || t.queued != 0 && o.queued >= t.queued {
			continue
		}
		if x := o.m.find(obj); x != nil && x.holds() {
			f(o)
		}
	}
}

// excluded reports whether t has a reason to wait for its objects.
func (w *world) excluded(t *wtask) bool {
	for _, u := range t.m.exclusive() {
		found := w.holder(t, u.obj) != nil
		w.older(t, u.obj, func(o *wtask) { found = found || o.passed >= chain.OvertakeMax })
		if found {
			return t.queued != 0
		}
	}
	return false
}

// checkExclusion checks a task that starts.
func (w *world) checkExclusion(t *wtask) {
	for _, u := range t.m.exclusive() {
		if o := w.holder(t, u.obj); o != nil {
			w.fail("task %s starts while %s holds the object", t.name, o.name)
		}
		w.older(t, u.obj, func(o *wtask) {
			if o.passed >= chain.OvertakeMax {
				w.fail("task %s overtakes %s once too often", t.name, o.name)
			}
		})
	}
	for _, u := range t.m.exclusive() {
		w.older(t, u.obj, func(o *wtask) { o.passed++ })
	}
}

// commute reports whether the order of the two tasks with respect to the object is free: where
// their ancestors diverge, both are Commutative.
func (w *world) commute(a, b *wtask, obj int) bool {
	for len(a.path) > len(b.path) {
		a = a.parent
	}
	for len(b.path) > len(a.path) {
		b = b.parent
	}
	for a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	x, y := a.m.find(obj), b.m.find(obj)
	if x == nil || y == nil || x.mode != chain.ModeCommutative || y.mode != chain.ModeCommutative || x.held() {
		return false
	}
	return true
}
