// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race || weftlint

package task

// current is the task whose body runs on a slot. The holder writes it. Package stuck reads it
// concurrently, and uses what it has read only if nothing has changed meanwhile. Go writes a
// pointer as a whole on every machine, so a plain word is enough, and saves a fence per task.
type current struct{ p *Task }

func (c *current) load() *Task   { return c.p }
func (c *current) store(t *Task) { c.p = t }
func (c *current) seen(*Task)    {}
