// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"

	"weft/internal/chain"
)

// A task with Commutative accesses has one more thing to wait for when nothing else holds it back: it takes all its objects
// together. So it does that after its accesses are satisfied and after OnReady and the events of that, and before it is
// queued; priorities and slots see only tasks that have their objects.

// admit reports whether t, which has become ready, may be queued or run by rt. If not, t waits for its objects, and
// comes out of the Flow of whoever gives back the last of them; or it is of another runtime, which has it now. It is
// not the caller's any more then. A task whose OnReady is still to be called is queued for that.
func (t *Task) admit(f *chain.Flow, rt *Runtime) bool {
	return !t.node.Commutes() || t.admitSlowly(f, rt)
}

func (t *Task) admitSlowly(f *chain.Flow, rt *Runtime) bool {
	switch {
	case t.node.Flags&flagOnReady != 0:
		return true
	case t.node.Exclusive():
		if rt := t.run.rt; rt.probe != nil {
			rt.probe.takes(t, true)
		}
		ok := t.node.Acquire(f) // else t may be somebody else's
		if ok && t.run.rt.probe != nil {
			t.run.rt.probe.takes(t, false)
		}
		return ok
	case t.run.rt != rt: // who had the object is not of t's runtime
		t.run.rt.readyOff(t)
		return false
	}
	return true
}

// heldByLoop returns accs for a child of t, a recorded task: t itself has no accesses that would say what the loop's
// task holds.
func (t *Task) heldByLoop(accs []chain.Access) []chain.Access {
	copied := false
	for i, a := range accs {
		if a.Reduced() == nil && t.parent().node.Holds(a) {
			if !copied {
				accs, copied = slices.Clone(accs), true
			}
			accs[i] = a.Held()
		}
	}
	return accs
}
