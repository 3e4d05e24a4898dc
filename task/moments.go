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

// The functions in this file put together what the probe is told about tasks. "Tells" means: calls
// the observers behind the probe.

// tellMain tells that t, the main task of a run, is spawned.
func (t *Task) tellMain(p *probe.Probe) {
	if t.id = t.run.id; t.id != 0 {
		x := t.spawn(0)
		t.spec = p.MainSpawned(t.id, &x)
	}
	if p.Keeps() {
		t.keep(p, -1, nil, nil, 0)
	}
}

// keep makes the observers that keep notes begin their notes of c, a new child of t. t is nil if c
// is a main task.
func (c *Task) keep(p *probe.Probe, at int, t *Task, accs []chain.Access, flags uint8) {
	n, parent := &c.rare().noted, probe.Notes{}
	c.node.Flags |= flagLongSpawn
	if t != nil {
		parent = t.more.noted
	}
	*n = p.Enter(parent, &probe.Spawn{At: at, Label: c.label, PC: c.pc, Wait: c.node.Flags&flagWait != 0,
		Loop: flags&event.SpawnedLoop != 0, NoBody: flags&spawnedWaitOn != 0}, accs)
}

// spawnedWaitOn is a flag of tellSpawned in addition to those of event.Spawned: c is the task of a
// WaitOn.
const spawnedWaitOn = 1 << 7

// tellSpawned tells that c, a child of t, is spawned. c is complete but not registered: no other
// goroutine knows it yet.
func (c *Task) tellSpawned(p *probe.Probe, t *Task, accs []chain.Access, flags uint8) {
	if p.Ev != nil {
		c.record(p.Ev, t, accs, flags&^spawnedWaitOn)
	}
	if p.Keeps() {
		c.keep(p, t.slot.ID, t, accs, flags)
	}
}

// record records the spawn of c in the trace, or notes that c is not recorded.
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

// spawn returns the trace record of c's spawn, without its parent and its accesses.
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

// origin returns the label, spawn site and body of t.
func (t *Task) origin() event.Origin {
	o := event.Origin{Body: codeOf(t.fn)}
	if t.node.Flags&flagRare != 0 {
		o.Label, o.Site = t.label, t.pc
	}
	return o
}

// registerTold registers c as a child of t, and tells if the engine panics because of its accesses.
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

// tellMayRun tells that c was ready when it was spawned.
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
		t.id = 0 // nothing is left for tellOver to record
	}
	ev.Ended(id, events, flags)
}

// tellEnded tells that t's body is over. The caller is the body's goroutine.
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

// tellSlot tells that s changes its state.
func (s *slot) tellSlot(k event.Kind, id uint64) {
	if s.probe != nil {
		s.probe.SlotEvent(k, id)
	}
}

// tellOver tells that t and its descendants are over, or one run of t if it is a task of a recorded
// loop. t gives up now what it has not given up before. s is the caller's slot, nil if there is
// none.
func (t *Task) tellOver(p *probe.Probe, s *slot) {
	if t.id != 0 && t.node.Flags&flagUnseen == 0 {
		if s != nil && t.node.Flags&flagWait != 0 {
			s.settle(false) // other tasks have made ready what is in the flow
			s.probe.ReadyBy(t.id)
		}
		p.Put(event.Completed, t.id, 0, 0)
		if t.node.Flags&flagRecorded == 0 {
			t.id = 0 // the next task in this memory may not be recorded
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
	p.Waits(t.notes(), watchdog.Wait{Op: x.op, What: x.what, On: x.on.Watched, Due: x.due, Children: x.op == opWait, Passes: x.op == opThrottled})
}

// notes returns what the observers keep of t; the zero value if none of them keeps notes.
// Precondition: t is alive.
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

// lintEnds tells lint mode that t's body, or one of its events, is over: what waits for t is
// ordered after it.
func (t *Task) lintEnds() {
	for s := range sharesOf(t.more).All() {
		if s.c != nil {
			race.Release(s.c)
		}
	}
	t.more.noted.Linted.End()
}
