// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/event"

// ofTasks are the kinds of events whose first word is the number of a task. Where tasks are sampled, one that is not recorded has the number 0.
var ofTasks = event.Of(event.Ready, event.Prepared, event.Started, event.Skipped, event.Ended, event.Released, event.Completed,
	event.Blocked, event.Unblocked, event.Resumed, event.HoldUp, event.HoldDown)

// origin is where t comes from.
func (t *Task) origin() event.Origin {
	o := event.Origin{Body: codeOf(t.fn)}
	if t.Flags&flagRare != 0 {
		o.Label, o.Site = t.label, t.pc
	}
	return o
}

// skips reports whether c, which is being spawned, is not to be recorded. Parts of recorded loops always are, since a round says which task of
// the first round each of its tasks was.
func (e *events) skips(c *Task, flags uint8) bool {
	if flags&event.SpawnedLoop != 0 || e.sampler.Take() {
		return false
	}
	c.Flags |= flagUnseen
	e.fresh = false
	return true
}

// beginsUnseen is the start of a body whose task was not recorded when it was spawned. On top of one that is recorded it has to be from here on: what
// it runs is not that one's. It is counted here and not when it is spawned, since its closure is about to be used. Precondition: tasks are sampled. Those who consume see a task without a spawn.
func (e *events) beginsUnseen(t, outer *Task) {
	e.sampler.Skip(t.origin())
	if outer != nil && outer.id != 0 {
		t.id, t.spec = e.newID(), 0
		t.Flags &^= flagUnseen
	}
}
