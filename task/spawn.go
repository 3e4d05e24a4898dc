// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/event"
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

// spawnWith spawns a task. pc is where, or zero.
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
	c.dress(&a)
	if a.Undeferred || included {
		t.runUndeferred(s, c, accs, event.SpawnedUndeferred)
		return
	}
	t.start(s, c, accs)
}

// dress gives c, which is new, the attributes other than Undeferred.
func (c *Task) dress(a *Attrs) {
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
	if a.Cost != 0 || a.OnReady != nil {
		c.addMore(a)
	}
}

// start registers c, queues it if it is ready, and reports whether it was. Precondition: t is no
// leaf.
func (t *Task) start(s *slot, c *Task, accs []chain.Access) (isReady bool) {
	if s.probe != nil {
		s.probe.spawned(t, c, accs, 0)
		isReady = s.probe.register(t, c, accs, &s.flow)
	} else {
		isReady = t.node.Register(&c.node, accs, &s.flow)
	}
	isReady = isReady && c.admit(&s.flow, s.rt)
	t.spawned++
	if isReady {
		if s.probe != nil {
			s.probe.mayRun(c)
		}
		s.ready(c)
	}
	s.recycle()
	if t.unlooked++; t.unlooked >= windowLook {
		t.unlooked = 0
		t.throttle()
	}
	return isReady
}

// register registers c, of which the observers know, and reports whether it is ready.
func (t *Task) register(s *slot, c *Task, accs []chain.Access) (isReady bool) {
	if s.probe != nil {
		return s.probe.register(t, c, accs, &s.flow)
	}
	return t.node.Register(&c.node, accs, &s.flow)
}

// traced returns the program counter of the caller of the method that calls traced; zero if
// spawns are not traced.
func (rt *Runtime) traced() uintptr {
	if !rt.cfg.TraceSpawns {
		return 0
	}
	return caller()
}

// caller returns the program counter of the caller of the function that calls traced.
//
//go:noinline
func caller() uintptr {
	var pc [1]uintptr
	runtime.Callers(4, pc[:])
	return pc[0]
}

// newTask returns a task for a child of t, with no references in it but these.
func (s *slot) newTask(t *Task, fn func(*Task) error) *Task {
	if fn == nil {
		panic("task: the body is nil")
	}
	n := len(s.free) - 1
	if n < 0 {
		s.refill()
		n = len(s.free) - 1
	}
	c := fromNode(s.free[n])
	s.free = s.free[:n]
	if n > 0 {
		prefetch(fromNode(s.free[n-1]))
	}
	r := t.run // before the stores, which are one batch of the write barrier then
	c.fn, c.run, c.node.Parent = fn, r, &t.node
	return c
}

// recycle takes in the tasks that nothing refers to any more.
func (s *slot) recycle() {
	for n := s.flow.NextFree(); n != nil; n = s.flow.NextFree() {
		s.takeBack(fromNode(n))
	}
}

// keep puts c on the free list.
func (s *slot) keep(c *Task) {
	if s.free = append(s.free, &c.node); len(s.free) == freeMax {
		s.spill()
	}
}

// keepOff is slot.keep for a caller without a slot.
func (rt *Runtime) keepOff(c *Task) { rt.pool.Put([]*chain.Node{&c.node}) }

// recycle is slot.recycle for a caller without a slot.
func (rt *Runtime) recycle(f *chain.Flow) {
	for n := f.NextFree(); n != nil; n = f.NextFree() {
		rt.keepOff(fromNode(n))
	}
}

// takeBack is keep for a task that ended elsewhere, most likely. It is not the next one to be used, and until then its lines are here.
func (s *slot) takeBack(c *Task) {
	prefetch(c)
	s.keep(c)
	if n := len(s.free); n > 1 {
		s.free[n-1], s.free[n-2] = s.free[n-2], &c.node
	}
}

// clear makes c, which is over, what newTask expects. Nothing of the user's is left in it, nor a way to
// other tasks: what still points to c, such as a deque in which it has been, keeps c's memory and no more.
func (c *Task) clear() {
	c.fn, c.run, c.node.Parent = nil, nil, nil
	if c.node.Flags != flagLeaf {
		c.clearRest()
	}
	if earlyUnblocks.Load() {
		c.block.Init(blockNone)
	}
}

// clearRest clears what Flags says may be set.
func (c *Task) clearRest() {
	if c.node.Flags&flagRare != 0 {
		c.label, c.pc, c.priority, c.cost, c.final, c.und = "", 0, 0, 0, false, nil
		if c.more != nil {
			c.more.reset()
		}
	}
	c.clearUsed()
	c.node.Flags = flagLeaf
}

// clearUsed clears what the body of c has used, except Flags.
func (c *Task) clearUsed() {
	if c.node.Flags&flagLeaf == 0 && c.spawned != 0 { // phase is not phaseWait: no body leaves Wait so
		c.spawned = 0
		c.count.Init(0) // it is zero where spawned is
	}
	if c.node.Flags&flagHeld != 0 {
		c.holds.Init(0)
	}
}

// clearForGood is clear for a task whose memory is not used again: somebody may call Unblock at this moment.
func (c *Task) clearForGood() {
	c.fn, c.run, c.node.Parent, c.label, c.und, c.more = nil, nil, nil, "", nil, nil
}

// undeferred is how the creator of an undeferred task learns that its body is over.
type undeferred struct {
	creator *Task
	state   waitWord
}

// runUndeferred runs c and returns when its body is over. The observers are told of flags.
func (t *Task) runUndeferred(s *slot, c *Task, accs []chain.Access, flags uint8) {
	u := s.und
	if s.und = nil; u == nil {
		u = new(undeferred)
	}
	u.creator = t
	c.und = u
	c.node.Flags |= flagUndeferred | flagRare
	x := waiting{op: opChild}
	if s.probe != nil {
		s.probe.spawned(t, c, accs, flags)
		x.on = c.notes() // once registered c may run elsewhere
	}
	isReady := t.register(s, c, accs)
	if s.probe != nil && isReady && c.node.Flags&flagOnReady != 0 {
		s.probe.queued(c)
	}
	t.spawned++
	s.recycle()
	if isReady && (c.node.Flags&flagOnReady == 0 || s.onReady(c)) && c.admit(&s.flow, s.rt) {
		if s.nested < nestMax {
			if s.probe != nil {
				s.probe.queued(c)
			}
			c.node.Flags &^= flagUndeferred // nobody needs to be told
			u.creator = nil
			s.und = u
			s = s.execute(c)
			s.tellFor(t)
			if s.probe != nil {
				s.probe.joined(x.on, false)
			}
			return
		}
		s.ready(c)
	}
	// Descendants do not run here, on top of t, as in Wait: t need not outlast
	// them, and one of them may be blocked until t does something afterwards.
	t.prepare(x)
	if u.state.wait() {
		t.park(s, event.BlockedUndeferred)
	} else {
		t.unprepare()
	}
	if s = t.slot; s.probe != nil {
		s.probe.joined(x.on, false)
	}
}
