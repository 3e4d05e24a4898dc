// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/deps"

// noteRecorded makes a record for c, a recorded task, in debug mode. Its uses are in the books
// while a run of c may use the objects.
func (t *Task) noteRecorded(c *Task, accs []deps.Access) {
	parent := t.record()
	r := &record{parent: parent, depth: parent.depth + 1, label: c.label, pc: c.pc}
	c.rare().record = r
	strong := make([]deps.Access, len(accs))
	for i, a := range accs {
		strong[i] = a.Strong()
	}
	r.declare(strong)
	n := len(r.uses)
	fn := c.fn
	c.fn = func(t *Task) error {
		b := &t.run.books
		b.addAll(r, n)
		if err := b.openAll(r); err != nil {
			return err
		}
		return fn(t)
	}
}

// addAll enters the n uses that r's task has declared again. They were dropped at the end of the run before, with
// what Release had left of them.
func (b *books) addAll(r *record, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.uses = r.uses[:n]
	for _, u := range r.uses {
		u.open = false
		b.add(u)
	}
}
