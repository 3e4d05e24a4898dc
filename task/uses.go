// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/deps"

// Uses says that the body is about to use memory as accs say. In debug mode it panics if the task has not
// declared that, has declared it weak, or has given it up; otherwise it does nothing. It is for the places where
// a body gets at its data.
func (t *Task) Uses(accs ...deps.Access) {
	if t.run == nil || t.run.rt.probe == nil || t.run.rt.probe.audit == nil {
		return
	}
	t.enter("Uses")
	if why := t.more.audited.Uses(accesses(accs)); why != "" {
		panic("task: " + why)
	}
}
