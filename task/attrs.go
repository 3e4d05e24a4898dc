// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

// Attrs are the attributes of a task. The zero value has none.
type Attrs struct {
	// Label names the task in errors and profiles.
	Label string

	// Priority orders ready tasks: larger first; the default is 0. It is a hint: running tasks are
	// not interrupted. Children do not inherit it. A value that does not fit into 32 bits counts as
	// the largest, or smallest, that does.
	Priority int

	// Undeferred makes Spawn return when the body is over (OmpSs-2's if(0)). The body
	// runs on the creator's stack if its accesses allow it at once.
	Undeferred bool

	// Wait delays the release of all accesses until the descendants are over as well. This is
	// coarser than the default, by which the children release them one by one, and cheaper than
	// a Wait at the end of the body, since no stack is kept.
	Wait bool

	// Final makes all descendants undeferred: each runs at once when it is
	// spawned, one after the other. It ends a recursion whose parts have become too
	// small to run in parallel. Bodies can ask [Task.InFinal].
	Final bool

	// Cost says how much work the task is, in units of the program's own. [Task.Cost] returns it;
	// the scheduler does not use it.
	Cost int

	// OnReady, if not nil, is called once when the accesses are satisfied, before
	// the body. It may bind events by [Task.Hold], and the body starts when these have
	// ended; then the body may bind events of its own. An error or a panic ends the
	// run. OnReady runs where tasks are scheduled, so it must be short and not block: of
	// t's methods it may call Hold, Context, Runtime, Label, Cost and InFinal.
	OnReady func(t *Task) error
}

// Label returns the label of the task. Any goroutine may call it while the task
// is not over.
func (t *Task) Label() string { return t.label }

// InFinal reports whether t was spawned with [Attrs.Final], or descends from such a
// task: the tasks that it spawns run at once. Any goroutine may call it while the task is not over.
func (t *Task) InFinal() bool { return t.final }

// Cost returns [Attrs.Cost]. Any goroutine may call it while the task is not over.
func (t *Task) Cost() int { return t.cost }

// setAttrs sets the attributes of c, a new task, except Undeferred.
func (c *Task) setAttrs(a *Attrs) {
	if a.Label != "" || a.Priority != 0 {
		c.label = a.Label
		c.node.Flags |= flagRare
	}
	if a.Priority != 0 {
		c.priority = int32(max(min(a.Priority, 1<<31-1), -1<<31))
		c.node.Flags |= flagPriority
	}
	if a.Wait {
		c.node.Flags |= flagWait
	}
	if a.Final {
		c.final = true
		c.node.Flags |= flagRare | flagLongSpawn
	}
	if a.Cost != 0 {
		c.cost = a.Cost
		c.node.Flags |= flagRare
	}
	if a.OnReady != nil {
		c.rare().onReady = a.OnReady
		c.node.Flags |= flagOnReady
	}
}

// clearAttrs resets the fields of c that setAttrs sets, except Flags and the fields of more.
func (c *Task) clearAttrs() { c.label, c.priority, c.cost, c.final = "", 0, 0, false }

// copyAttrs gives c, which takes the place of t, the fields that setAttrs sets, except Flags. c has
// a more if t has one.
func (c *Task) copyAttrs(t *Task) {
	c.label, c.priority, c.cost, c.final = t.label, t.priority, t.cost, t.final
	if t.more != nil {
		c.more = &more{onReady: t.more.onReady}
	}
}
