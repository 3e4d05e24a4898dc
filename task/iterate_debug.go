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
	for _, a := range accs {
		obj, ok := a.Object()
		if !ok {
			continue
		}
		a = a.Strong()
		if u := r.find(obj); u != nil {
			u.access = deps.Combined(u.access, a)
			continue
		}
		r.uses = append(r.uses, use{rec: r, obj: obj, access: a})
	}
	fn := c.fn
	c.fn = func(t *Task) error {
		b := &t.run.books
		b.addAll(r)
		if err := b.openAll(r); err != nil {
			return err
		}
		return fn(t)
	}
}

// addAll enters the uses of r again. They were dropped at the end of the run before.
func (b *books) addAll(r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range r.uses {
		r.uses[i].open = false
		b.add(&r.uses[i])
	}
}
