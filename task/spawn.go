// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/deps"
	"weft/internal/chain"
	"weft/internal/event"
	"weft/task/internal/probe"
)

// Spawn makes a child of t that runs fn when accs allow it, and returns. The body's
// error, or its panic, ends the run.
//
// Order is decided by the accesses of the children of one task, in the
// order in which they are spawned. Cost: fn's closure is the only allocation.
func (t *Task) Spawn(fn func(*Task) error, accs ...deps.Access) {
	s := t.enter("Spawn")
	if t.node.Flags&(flagLongSpawn|flagLeaf) != 0 {
		if t.node.Flags&flagLongSpawn != 0 {
			t.spawnWith(s, s.rt.traced(), Attrs{}, fn, accesses(accs))
			return
		}
		t.node.Flags &^= flagLeaf
	}
	t.start(s, s.newTask(t, fn), accesses(accs))
}

// SpawnWith is Spawn with attributes.
func (t *Task) SpawnWith(a Attrs, fn func(*Task) error, accs ...deps.Access) {
	s := t.enter("SpawnWith")
	t.spawnWith(s, s.rt.traced(), a, fn, accesses(accs))
}

// spawnWith spawns a task with attributes. pc is the spawn site, or zero.
func (t *Task) spawnWith(s *slot, pc uintptr, a Attrs, fn func(*Task) error, accs []chain.Access) {
	if t.node.Flags&flagLongSpawn != 0 {
		s = t.beforeSpawn(accs)
		if t.node.Flags&flagRecorded != 0 {
			accs = t.heldByLoop(accs)
		}
	}
	t.node.Flags &^= flagLeaf
	c := s.newTask(t, fn)
	included := false
	if t.node.Flags&flagLongSpawn != 0 && (t.final || s.rt.cfg.TraceSpawns) {
		included = t.final
		c.final = included
		c.node.Flags |= flagRare | flagLongSpawn
	}
	if pc != 0 {
		c.pc = pc
		c.node.Flags |= flagRare
	}
	c.setAttrs(&a)
	if a.Undeferred || included {
		t.runUndeferred(s, c, accs, event.SpawnedUndeferred)
		return
	}
	t.start(s, c, accs)
}

// start registers c, queues it if it is ready, and reports whether it was. Precondition: flagLeaf
// of t is not set.
func (t *Task) start(s *slot, c *Task, accs []chain.Access) (isReady bool) {
	if s.probe != nil {
		c.tellSpawned(s.probe, t, accs, 0)
		isReady = t.registerTold(s.probe, c, accs, &s.flow)
	} else {
		isReady = t.node.Register(&c.node, accs, &s.flow)
	}
	isReady = isReady && c.admit(&s.flow, s.rt)
	t.spawned++
	if isReady {
		if s.probe != nil && s.probe.Keeps() {
			c.tellMayRun(s.probe)
		}
		s.ready(c)
	}
	s.recycle()
	if t.unchecked++; t.unchecked >= throttleEvery {
		t.unchecked = 0
		t.throttleSpawn()
	}
	return isReady
}

// register registers c, which is to run at once, and reports whether it is ready. flags go to the
// observers; n is what the observers keep of c.
func (t *Task) register(s *slot, c *Task, accs []chain.Access, flags uint8) (isReady bool, n probe.Notes) {
	if s.probe == nil {
		return t.node.Register(&c.node, accs, &s.flow), n
	}
	c.tellSpawned(s.probe, t, accs, flags)
	n = c.notes() // once registered c may run elsewhere
	return t.registerTold(s.probe, c, accs, &s.flow), n
}

// runUndeferred runs c and returns when its body is over. flags go to the observers.
func (t *Task) runUndeferred(s *slot, c *Task, accs []chain.Access, flags uint8) {
	u := s.und
	if s.und = nil; u == nil {
		u = new(undeferred)
	}
	u.creator = t
	c.und = u
	c.node.Flags |= flagUndeferred | flagRare
	isReady, child := t.register(s, c, accs, flags)
	if s.probe != nil && isReady && c.node.Flags&flagOnReady != 0 {
		s.probe.Queued(c.id, false)
	}
	t.spawned++
	s.recycle()
	if isReady && (c.node.Flags&flagOnReady == 0 || s.onReady(c)) && c.admit(&s.flow, s.rt) {
		if s.nested < nestMax {
			if s.probe != nil {
				s.probe.Queued(c.id, false)
			}
			c.node.Flags &^= flagUndeferred // t does not sleep, so bodyOver has nothing to wake
			u.creator = nil
			s.und = u
			s = s.execute(c)
			s.flushBefore(t)
			if s.probe != nil {
				s.probe.Joined(child, false)
			}
			return
		}
		s.ready(c)
	}
	// Unlike in Wait, no descendants run here on top of t: t need not outlast them, and one of them
	// may be blocked until t does something afterwards.
	t.prepare(waiting{op: opChild, on: child})
	if u.state.wait() {
		t.park(s, event.BlockedUndeferred)
	} else {
		t.unprepare()
	}
	if s = t.slot; s.probe != nil {
		s.probe.Joined(child, false)
	}
}
