// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// taskEvent is step for records of tasks.
func (c *Checker) taskEvent(e *replay.Event) error {
	id := key{e.Process, e.A}
	t := c.task(id)
	switch k := e.Kind(); {
	case k == event.RunFailed:
		c.failed[id] = true // possibly before it is spawned
		return nil
	case t != nil && (k == event.Spawned || k == event.Again):
		return t.illegal("the number is in use or was used before")
	case k == event.Spawned:
		return c.spawned(e, id)
	case k == event.Again:
		return c.again(e, id)
	case t == nil:
		return fmt.Errorf("%w: task %d", errUnknown, e.A)
	case t.state == over:
		return t.illegal("nothing may follow")
	}
	switch e.Kind() {
	case event.Access:
		if t.state != unready && t.state != ready {
			return t.illegal("accesses are declared when it is spawned")
		}
	case event.Ready:
		return t.toReady()
	case event.Refused:
		if t.state != unready {
			return t.illegal("it has been registered")
		}
		t.toOver(c)
	case event.Prepared:
		if t.state != ready {
			return t.illegal("OnReady is called when it is ready")
		}
		t.state = prepared
	case event.Started, event.Skipped:
		return c.begins(e, t)
	case event.Ended:
		return c.ends(e, t)
	case event.Released, event.Completed:
		switch {
		case t.state != ended:
			return t.illegal("its body has not returned")
		case t.holds != 0:
			return t.illegal("%d events are pending", t.holds)
		case e.Kind() == event.Released:
			return nil
		case t.children != 0:
			return t.illegal("%d children are not complete", t.children)
		}
		t.toOver(c)
	case event.Blocked:
		s := c.slotOf(e)
		if t.state != running || s.cur != t {
			return t.illegal("%s", s.runs())
		}
		s.cur = nil
		t.state = blocked
	case event.Unblocked:
		if t.woken || t.state != running && t.state != blocked {
			return t.illegal("nothing blocks it")
		}
		t.woken = true
	case event.Resumed:
		s := c.slotOf(e)
		switch {
		case t.state != blocked:
			return t.illegal("it has not given up a slot")
		case !t.woken:
			return t.illegal("nothing has unblocked it")
		case s.state != held || s.cur != nil:
			return t.illegal("%s", s.runs())
		}
		t.state, t.woken, s.cur = running, false, t
	case event.HoldUp:
		if t.state == unready {
			return t.illegal("only the body, or OnReady, binds the first event")
		}
		t.holds++
	case event.HoldDown:
		if t.holds == 0 {
			return t.illegal("no event is pending")
		}
		t.holds--
	}
	return nil
}

func (c *Checker) spawned(e *replay.Event, id key) error {
	flags := e.C >> 48
	n := &task{id: id, spec: uint32(e.C), loop: flags&event.SpawnedLoop != 0}
	if flags&event.SpawnedReady != 0 {
		n.state = ready
	}
	switch p := c.task(key{e.Process, e.B}); {
	case flags&event.SpawnedMain != 0:
		n.main = n
	case p == nil:
		return fmt.Errorf("%w: its parent, task %d", errUnknown, e.B)
	case p.state == over || p.state == unready:
		return p.illegal("it cannot spawn")
	default:
		n.parent, n.main = p, p.main
		if !n.loop {
			p.children++
		}
	}
	c.tasks[id] = n
	return nil
}

// again makes a new task from a task of a recorded loop. The old task is over, and is replaced: the
// parent keeps its number of children.
func (c *Checker) again(e *replay.Event, id key) error {
	old := c.task(key{e.Process, e.B})
	if old == nil {
		return fmt.Errorf("%w: task %d", errUnknown, e.B)
	}
	if !old.loop || old.state != over {
		return old.illegal("only a complete task of a recorded loop is run again")
	}
	c.tasks[id] = &task{id: id, spec: old.spec, loop: true, parent: old.parent, main: old.main}
	c.forget(old.id)
	return nil
}

func (t *task) toReady() error {
	if t.state != unready && t.state != prepared {
		return t.illegal("it becomes ready once")
	}
	if t.state == prepared && t.holds != 0 {
		return t.illegal("%d events are pending", t.holds)
	}
	if t.loop && t.state == unready && t.parent != nil {
		t.parent.children++ // before it is ready, the loop may still end without another round
	}
	t.state = ready
	return nil
}

func (c *Checker) begins(e *replay.Event, t *task) error {
	s := c.slotOf(e)
	outer := c.tasks[key{e.Process, e.B}] // nil for none
	switch {
	case t.state != ready:
		return t.illegal("only a ready task begins")
	case s.state != held:
		return t.illegal("the slot is %v", s.state)
	case s.cur != outer:
		return t.illegal("%s", s.runs())
	case e.Kind() == event.Skipped && t.main != nil && !c.failed[t.main.id]:
		return t.illegal("its run has not failed")
	}
	t.state, t.outer, s.cur = running, outer, t
	return nil
}

func (c *Checker) ends(e *replay.Event, t *task) error {
	s := c.slotOf(e)
	done := e.C&event.EndedCompleted != 0
	switch {
	case t.state != running || s.cur != t:
		return t.illegal("%s", s.runs())
	case done && t.holds != 0:
		return t.illegal("it cannot be complete: %d events are pending", t.holds)
	case done && t.children != 0:
		return t.illegal("it cannot be complete: %d children are not complete", t.children)
	}
	t.state, s.cur = ended, t.outer
	t.outer = nil
	if done {
		t.toOver(c)
	}
	return nil
}

// toOver ends t. Its state is dropped, so that memory is that of the live tasks.
func (t *task) toOver(c *Checker) {
	t.state = over
	if t.parent != nil {
		t.parent.children--
	}
	if !t.loop {
		c.forget(t.id)
	}
}

// forget drops the state of a task that is over, and remembers that its number was used.
func (c *Checker) forget(id key) {
	delete(c.tasks, id)
	c.gone[key{id.process, id.id >> 6}] |= 1 << (id.id & 63)
}

// unfinished lists the tasks, requests and operations that have not ended.
func (c *Checker) unfinished() (l []error) {
	var left []*task
	for _, t := range c.tasks {
		if t.state != over && !(t.loop && t.state == unready) {
			left = append(left, t)
		}
	}
	slices.SortFunc(left, func(a, b *task) int { return cmp.Compare(a.id.id, b.id.id) })
	for _, t := range left {
		l = append(l, t.illegal("it is never complete"))
	}
	return slices.Concat(l, c.pending(), c.undone())
}

func (c *Checker) slotOf(e *replay.Event) *slot {
	k := slotKey{e.Process, e.Source.Location}
	s := c.slots[k]
	if s == nil {
		s = &slot{}
		c.slots[k] = s
	}
	return s
}

// runs describes what the slot does.
func (s *slot) runs() string {
	if s.cur == nil {
		return fmt.Sprintf("the slot is %v and runs nothing", s.state)
	}
	return fmt.Sprintf("the slot runs task %d", s.cur.id.id)
}

func (c *Checker) slotEvent(e *replay.Event) error {
	s := c.slotOf(e)
	switch e.Kind() {
	case event.SlotTaken:
		if s.state != free {
			return fmt.Errorf("the slot is %v: another goroutine has it", s.state)
		}
		s.state = held
	case event.SlotReleased:
		if s.state != held || s.cur != nil {
			return fmt.Errorf("%s: it cannot be given up", s.runs())
		}
		s.state = free
	case event.Parked:
		if s.state != held || s.cur != nil {
			return fmt.Errorf("%s: it cannot park", s.runs())
		}
		s.state = parked
	case event.Unparked:
		if s.state != parked {
			return fmt.Errorf("the slot is %v, not parked", s.state)
		}
		s.state = held
	case event.Stolen:
		if s.state != held {
			return fmt.Errorf("%s: it cannot steal", s.runs())
		}
	}
	return nil
}
