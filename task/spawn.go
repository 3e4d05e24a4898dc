// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"

	"weft/deps"
)

// Spawn makes a child of t that runs fn when accs allow it, and returns. The body's
// error, or its panic, ends the run.
//
// Order is decided by the accesses of the children of one task, in the
// order in which they are spawned. Cost: fn's closure is the only allocation.
func (t *Task) Spawn(fn func(*Task) error, accs ...deps.Access) {
	s := t.enter("Spawn")
	c := s.newTask(t, fn)
	if s.rt.cfg.TraceSpawns {
		c.pc = caller()
		c.flags |= flagRare
	}
	t.start(s, c, accs)
}

// SpawnWith is Spawn with attributes.
func (t *Task) SpawnWith(a Attrs, fn func(*Task) error, accs ...deps.Access) {
	s := t.enter("SpawnWith")
	c := s.newTask(t, fn)
	if s.rt.cfg.TraceSpawns {
		c.pc = caller()
		c.flags |= flagRare
	}
	if a.Label != "" || a.Priority != 0 {
		c.label = a.Label
		c.flags |= flagRare
	}
	if a.Priority != 0 {
		c.priority = int32(max(min(a.Priority, 1<<31-1), -1<<31))
		c.flags |= flagPriority
	}
	if a.Wait {
		c.flags |= flagWait
	}
	if a.Undeferred {
		t.runUndeferred(s, c, accs)
		return
	}
	t.start(s, c, accs)
}

// start registers c and queues it if it is ready.
func (t *Task) start(s *slot, c *Task, accs []deps.Access) {
	isReady := t.Node.Register(&c.Node, accs, &s.flow)
	t.spawned++
	if isReady {
		s.ready(c)
	}
	s.recycle()
	if t.unlooked++; t.unlooked >= windowLook {
		t.unlooked = 0
		t.throttle()
	}
}

// caller returns the program counter of the caller of Spawn or SpawnWith.
//
//go:noinline
func caller() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
}

// newTask returns a task for a child of t, with no references in it but these.
func (s *slot) newTask(t *Task, fn func(*Task) error) *Task {
	if fn == nil {
		panic("task: the body is nil")
	}
	c := s.free
	if c == nil {
		c = s.refill()
	}
	s.free = c.next
	s.nfree--
	c.next = nil
	c.fn = fn
	c.parent = t
	c.run = t.run
	c.depth = t.depth + 1
	return c
}

// recycle takes in the tasks that nothing refers to any more.
func (s *slot) recycle() {
	for n := s.flow.NextFree(); n != nil; n = s.flow.NextFree() {
		if c := fromNode(n); !c.used {
			s.keep(c)
		}
	}
}

// keep puts c on the free list, in the state that newTask expects.
func (s *slot) keep(c *Task) {
	c.fn = nil
	if c.flags&flagRare != 0 {
		c.label, c.pc, c.priority = "", 0, 0
	}
	c.flags, c.phase, c.unlooked = 0, phaseBody, 0
	if c.spawned != 0 {
		c.spawned = 0
		c.count.Init(0) // it is zero where spawned is
	}
	c.holds.Init(0)
	c.block.Init(blockNone) // an early Unblock may have left its token
	c.next = s.free
	s.free = c
	if s.nfree++; s.nfree >= 2*batch {
		s.spill()
	}
}

// undeferred is how the creator of an undeferred task learns that its body is over.
type undeferred struct {
	creator *Task
	state   waitWord
}

// runUndeferred runs c and returns when its body is over.
func (t *Task) runUndeferred(s *slot, c *Task, accs []deps.Access) {
	u := &undeferred{creator: t}
	c.und = u
	c.flags |= flagUndeferred
	c.used = true
	isReady := t.Node.Register(&c.Node, accs, &s.flow)
	t.spawned++
	s.recycle()
	if isReady {
		s.execute(c).tellFor(t)
		return
	}
	// Descendants do not run here, on top of t, as in Wait: t need not outlast
	// them, and one of them may be blocked until t does something afterwards.
	t.prepare()
	if u.state.wait() {
		t.park(s)
	} else {
		t.unprepare()
	}
}
