// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/probe"
	"weft/task/internal/record"
	"weft/task/internal/watchdog"
)

// What a probe is told of tasks, where that needs to be put together.

// tellMain tells of t, the main task of a run.
func (t *Task) tellMain(p *probe.Probe) {
	if t.id = t.run.id; t.id != 0 {
		x := t.spawn(0)
		t.spec = p.MainSpawned(t.id, &x)
	}
	if p.Keeps() {
		t.keep(p, -1, nil, nil, 0)
	}
}

// keep has the observers, which keep notes, keep them of c, a new child of t; nil if c is a main
// task.
func (c *Task) keep(p *probe.Probe, at int, t *Task, accs []chain.Access, flags uint8) {
	n, parent := &c.rare().noted, probe.Notes{}
	c.node.Flags |= flagLongSpawn
	if t != nil {
		parent = t.more.noted
	}
	*n = p.Enter(parent, &probe.Spawn{At: at, Label: c.label, PC: c.pc, Wait: c.node.Flags&flagWait != 0,
		Loop: flags&event.SpawnedLoop != 0, NoBody: flags&spawnedWaitOn != 0}, accs)
}

// spawnedWaitOn is a flag of tellSpawned beside those of event.Spawned: c is the task of a WaitOn.
const spawnedWaitOn = 1 << 7

// tellSpawned tells of c, a new child of t, which is complete but not registered: nobody else knows
// it.
func (c *Task) tellSpawned(p *probe.Probe, t *Task, accs []chain.Access, flags uint8) {
	if p.Ev != nil {
		c.record(p.Ev, t, accs, flags&^spawnedWaitOn)
	}
	if p.Keeps() {
		c.keep(p, t.slot.ID, t, accs, flags)
	}
}

// record records c, or notes that it is not recorded.
func (c *Task) record(ev *record.Slot, t *Task, accs []chain.Access, flags uint8) {
	if ev.Skips(flags) {
		c.node.Flags |= flagUnseen
		return
	}
	x := c.spawn(flags)
	if t.node.Flags&flagUnseen == 0 {
		x.Parent, x.ParentSpec = t.id, t.spec
	}
	if x.ParentSpec == 0 {
		x.ParentOrigin = t.origin()
	}
	c.id, c.spec = ev.Spawned(&x, accs)
}

// spawn returns what a recording says of c but for its parent and its accesses.
func (c *Task) spawn(flags uint8) record.Spawn {
	x := record.Spawn{Origin: c.origin()}
	if c.node.Flags&^flagLeaf != 0 {
		if c.node.Flags&flagRare != 0 {
			x.Priority = c.priority
			if c.final {
				flags |= event.SpawnedFinal
			}
		}
		if c.node.Flags&flagWait != 0 {
			flags |= event.SpawnedWait
		}
		if c.node.Flags&flagOnReady != 0 {
			flags |= event.SpawnedOnReady
		}
	}
	x.Flags = flags
	return x
}

// origin is where t comes from.
func (t *Task) origin() event.Origin {
	o := event.Origin{Body: codeOf(t.fn)}
	if t.node.Flags&flagRare != 0 {
		o.Label, o.Site = t.label, t.pc
	}
	return o
}

// registerTold registers c as a child of t, and tells if the engine refuses its accesses.
func (t *Task) registerTold(p *probe.Probe, c *Task, accs []chain.Access, f *chain.Flow) bool {
	registered := false
	defer func() {
		if !registered {
			p.Refused(c.id, c.notes())
		}
	}()
	isReady := t.node.Register(&c.node, accs, f)
	registered = true
	return isReady
}

// tellMayRun tells that c may run from the start.
func (c *Task) tellMayRun(p *probe.Probe) {
	if err := p.MayRun(c.notes()); err != nil {
		c.run.fail(c.wrap(err, nil, nil))
	}
}

// tellBegins records that t's body begins, or is skipped.
func (t *Task) tellBegins(ev *record.Slot, k event.Kind) {
	outer := uint64(0)
	if o := t.slot.outer; o != nil {
		if o.node.Flags&flagUnseen == 0 {
			outer = o.id
		}
		ev.Late()
	}
	if t.node.Flags&flagUnseen != 0 {
		id := ev.BeginsUnseen(t.origin(), outer)
		if id == 0 {
			return
		}
		t.id, t.spec = id, 0
		t.node.Flags &^= flagUnseen
	}
	ev.Begins(t.id, outer, k)
}

// tellEnds records that the body of t is over.
func (t *Task) tellEnds(ev *record.Slot, failed bool) {
	if t.node.Flags&flagUnseen != 0 {
		ev.EndedUnseen()
		return
	}
	id, flags, events := t.id, uint64(0), t.holds.Load()
	if failed {
		flags = event.EndedFailed
	}
	if events == 0 && t.spawned == 0 && t.node.Flags&flagRecorded == 0 {
		flags |= event.EndedCompleted
		t.id = 0 // tellOver has nothing to record
	}
	ev.Ended(id, events, flags)
}

// tellEnded tells that t's body is over, and what it has bound to t. The caller is the body's
// goroutine.
func (t *Task) tellEnded(p *probe.Probe, failed bool) {
	if p.Ev != nil {
		t.tellEnds(p.Ev, failed)
	}
	p.Returns(t.notes())
	if race.Lint {
		t.lintEnds()
	}
}

// tellSkipped tells that t's body is not run, since the run has ended.
func (t *Task) tellSkipped(p *probe.Probe) {
	if p.Ev != nil {
		t.tellBegins(p.Ev, event.Skipped)
		t.tellEnds(p.Ev, false)
	}
	p.Returns(t.notes())
}

// tellSlot tells what becomes of s.
func (s *slot) tellSlot(k event.Kind, id uint64) {
	if s.probe != nil {
		s.probe.SlotEvent(k, id)
	}
}

// tellOver tells that t is over with its descendants, or, as a task of a recorded loop, one of its
// runs. What t has not given up is given up now. s is the caller's slot, nil if there is none.
func (t *Task) tellOver(p *probe.Probe, s *slot) {
	if t.id != 0 && t.node.Flags&flagUnseen == 0 {
		if s != nil && t.node.Flags&flagWait != 0 {
			s.settle(false) // what is there is due to others
			s.probe.Gives(t.id)
		}
		p.Put(event.Completed, t.id, 0, 0)
		if t.node.Flags&flagRecorded == 0 {
			t.id = 0 // whoever has the memory next may not be recorded
		}
	}
	if !p.Keeps() {
		return
	}
	n := t.more.noted
	if t.node.Flags&(flagWait|flagRecorded) != 0 {
		p.GivesUp(n, t.run.stopped.Load())
	}
	p.Over(n, t.node.Flags&flagRecorded != 0)
}

// tellWaits tells what t's body is about to wait for.
func (t *Task) tellWaits(p *probe.Probe, x *waiting) {
	p.Waits(t.notes(), watchdog.Wait{Op: x.op, What: x.what, On: x.on.Watched, Due: x.due, Children: x.op == opWait, Passes: x.op == opWindow})
}

// notes returns what the observers keep of t; nothing if none of them keeps notes. Precondition: t
// is alive.
func (t *Task) notes() (n probe.Notes) {
	if p := t.run.rt.probe; p != nil && p.Keeps() {
		n = t.more.noted
	}
	return n
}

// probeOf returns the probe of a caller that has slot s, or none.
func (rt *Runtime) probeOf(s *slot) *probe.Probe {
	if s != nil {
		return s.probe
	}
	return rt.probe
}

// lintEnds makes what t's body or one of its events has done come before what waits for t.
func (t *Task) lintEnds() {
	for s := range sharesOf(t.more).All() {
		if s.c != nil {
			race.Release(s.c)
		}
	}
	t.more.noted.Linted.End()
}
