// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/audit"
	"weft/task/internal/lint"
	"weft/task/internal/record"
	"weft/task/internal/watchdog"
)

// The moments that a probe is told of.

// put records an event.
func (p *probe) put(k event.Kind, a, b, c uint64) {
	switch {
	case p.ev != nil:
		p.ev.Put(k, a, b, c)
	case p.out != nil:
		p.out.Put(k, a, b, c)
	}
}

// runBegins tells of a run that is about to begin.
func (p *probe) runBegins(r *run) {
	if p.rec != nil {
		r.id = p.rec.NewID()
	}
}

// mainSpawned tells of t, the main task of a run.
func (p *probe) mainSpawned(t *Task) {
	if p.rec != nil {
		t.id = t.run.id
		x := t.spawn(0)
		t.spec = p.rec.MainSpawned(t.id, &x)
	}
	p.keep(nil, nil, t, nil, 0)
}

// keep has the observers that keep notes make some of c, a new child of t; nil if c is a main task.
func (p *probe) keep(s *slot, t, c *Task, accs []chain.Access, flags uint8) {
	if !p.keepsNotes() {
		return
	}
	loop := flags&event.SpawnedLoop != 0
	n := &c.rare().noted
	c.node.Flags |= flagLongSpawn
	if p.watch != nil {
		at, parent := -1, (*watchdog.Record)(nil)
		if t != nil {
			at, parent = s.ID, t.more.watched
		}
		n.watched = p.watch.Enter(at, parent, c.label, c.pc, accs, loop)
	}
	if p.audit != nil && flags&spawnedWaitOn == 0 { // such a task has no body
		var parent *audit.Record
		if t != nil {
			parent = t.more.audited
		}
		n.audited = p.audit.Enter(parent, c.label, c.pc, accs, loop)
	}
	if p.lint != nil {
		var parent *lint.Record
		if t != nil {
			parent = t.more.linted
		}
		n.linted = p.lint.Enter(parent, accs, c.node.Flags&flagWait != 0, loop)
	}
}

// spawnedWaitOn is a flag of spawned beside those of event.Spawned: c is the task of a WaitOn.
const spawnedWaitOn = 1 << 7

// spawned tells of c, a new child of t, which is complete but not registered: nobody else knows it.
func (p *probe) spawned(t, c *Task, accs []chain.Access, flags uint8) {
	if p.ev != nil {
		p.record(t, c, accs, flags&^spawnedWaitOn)
	}
	p.keep(t.slot, t, c, accs, flags)
}

// record records c, or notes that it is not recorded.
func (p *probe) record(t, c *Task, accs []chain.Access, flags uint8) {
	if p.ev.Skips(flags) {
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
	c.id, c.spec = p.ev.Spawned(&x, accs)
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

// register registers c as a child of t, and tells if the engine refuses its accesses.
func (p *probe) register(t, c *Task, accs []chain.Access, f *chain.Flow) bool {
	registered := false
	defer func() {
		if !registered {
			if c.id != 0 {
				p.put(event.Refused, c.id, 0, 0)
			}
			if p.audit != nil {
				c.more.audited.Drop()
			}
		}
	}()
	isReady := t.node.Register(&c.node, accs, f)
	registered = true
	return isReady
}

// mayRun tells that c may run from the start. It comes before others can take c.
func (p *probe) mayRun(c *Task) {
	if p.audit == nil {
		return
	}
	if err := c.more.audited.OpenAll(); err != nil {
		c.run.fail(c.wrap(err, nil, nil))
	}
}

// queued tells that t may start, or be resumed. It comes before others can take t.
func (p *probe) queued(t *Task) {
	if p.ev != nil && t.node.Flags&flagUnseen == 0 {
		p.ev.Queued(t.id, t.node.Flags&flagResuming != 0)
	}
}

// queuedBy is queued for a caller without a slot. by is the number of the task whose end has made t
// ready; zero for none.
func (p *probe) queuedBy(t *Task, by uint64) {
	switch {
	case p.out == nil:
	case t.node.Flags&flagResuming != 0:
		p.out.Put(event.Unblocked, t.id, 0, 0)
	default:
		p.out.Put(event.Ready, t.id, by, 0)
	}
}

// late tells that time has passed on the slot since the last event.
func (p *probe) late() {
	if p.ev != nil {
		p.ev.Late()
	}
}

// slotEvent tells what happens to the slot.
func (p *probe) slotEvent(k event.Kind, to *Task) {
	if p.ev == nil {
		return
	}
	if k != event.SlotGiven {
		p.ev.Late()
	}
	id := uint64(0)
	if to != nil {
		id = to.id
	}
	p.ev.Put(k, id, 0, 0)
}

// loops tells that the caller begins to run tasks on the slot.
func (p *probe) loops() {
	if p.ev != nil {
		p.ev.Unlabel()
	}
}

// stolen tells that the slot has taken t, and more tasks, from another one.
func (p *probe) stolen(t *Task, from *slot, tasks int) {
	if p.ev != nil {
		p.ev.Late()
		p.ev.Put(event.Stolen, t.id, uint64(from.ID), uint64(tasks))
	}
}

// sees makes the caller, a goroutine of the runtime's, come after what bodies have done, in lint
// mode. body: the goroutine may be that of a body as well.
func (p *probe) sees(body bool) {
	if race.Lint {
		p.lint.Sees(body)
	}
}

// shows makes what the caller has done come before what the runtime's goroutines do, in lint mode.
func (p *probe) shows() {
	if race.Lint {
		p.lint.Shows()
	}
}

// begins records that t's body begins, or is skipped.
func (p *probe) begins(t *Task, k event.Kind) {
	outer := uint64(0)
	if o := t.slot.outer; o != nil {
		if o.node.Flags&flagUnseen == 0 {
			outer = o.id
		}
		p.ev.Late()
	}
	if t.node.Flags&flagUnseen != 0 {
		id := p.ev.BeginsUnseen(t.origin(), outer)
		if id == 0 {
			return
		}
		t.id, t.spec = id, 0
		t.node.Flags &^= flagUnseen
	}
	p.ev.Begins(t.id, outer, k)
}

// ends records that the body of t is over.
func (p *probe) ends(t *Task, failed bool) {
	if t.node.Flags&flagUnseen != 0 {
		p.ev.EndedUnseen()
		return
	}
	id, flags, events := t.id, uint64(0), t.holds.Load()
	if failed {
		flags = event.EndedFailed
	}
	if events == 0 && t.spawned == 0 && t.node.Flags&flagRecorded == 0 {
		flags |= event.EndedCompleted
		t.id = 0 // over has nothing to record
	}
	p.ev.Ended(id, events, flags)
}

// ended tells that t's body is over, and what it has bound to t. The caller is the body's goroutine.
func (p *probe) ended(t *Task, failed bool) {
	if p.ev != nil {
		p.ends(t, failed)
	}
	if p.watch != nil {
		t.more.watched.Returns()
	}
	if race.Lint {
		p.lintEnds(t)
	}
}

// skipped tells that t's body is not run, since the run has ended.
func (p *probe) skipped(t *Task) {
	if p.ev != nil {
		p.begins(t, event.Skipped)
		p.ends(t, false)
	}
	if p.watch != nil {
		t.more.watched.Returns()
	}
}

// prepared tells that the slot is about to look at t's OnReady.
func (p *probe) prepared(t *Task) {
	if p.ev != nil {
		p.ev.Put(event.Prepared, t.id, 0, 0)
		p.ev.Late()
	}
}

// holds tells that an event of t has begun, and holdEnds that it has ended.
func (p *probe) holds(t *Task) { p.put(event.HoldUp, t.id, 0, 0) }

func (p *probe) holdEnds(t *Task, err error) {
	if race.Lint {
		t.more.linted.Prepared() // it may be one of OnReady's
		p.lintEnds(t)
	}
	flags := uint64(0)
	if err != nil {
		flags = event.EndedFailed
	}
	p.put(event.HoldDown, t.id, 0, flags)
}

// names gives what tells that an event of t, which what describes and release ends, has ended.
func (p *probe) names(t *Task, what any, release func(error)) func(error) {
	if p.watch == nil {
		return release
	}
	end := t.more.watched.AddEvent(what, release)
	p.shows()
	return end
}

// released tells that t's last event has ended, with the body over: its accesses are about to be given up.
func (p *probe) released(t *Task) {
	p.put(event.Released, t.id, 0, 0)
	p.gives(t.id)
}

// gives tells that what becomes ready from now on does so by the task of a number; zero: by none.
func (p *probe) gives(id uint64) {
	if p.ev != nil {
		p.ev.By(id)
	}
}

// releases tells that t's body is about to give up a, and keeps that the engine has refused that.
func (p *probe) releases(t *Task, a chain.Access) {
	p.gives(t.id)
	if p.audit != nil {
		t.more.audited.Release(a)
	}
	if p.watch != nil {
		t.more.watched.GaveEarly(a)
	}
	if race.Lint {
		t.more.linted.Release(a)
	}
}

func (p *probe) keeps(t *Task) {
	if p.audit != nil {
		t.more.audited.TakeBack()
	}
}

// finishes tells that t's accesses are about to be given up, while descendants of t may be alive.
func (p *probe) finishes(t *Task) {
	if p.watch != nil {
		t.more.watched.Gives()
	}
	if p.audit != nil {
		t.more.audited.Over(t.run.stopped.Load())
	}
}

// over tells that t is over with its descendants, or, as a task of a recorded loop, one of its runs. What t has not given up
// is given up now. s is the caller's slot, nil if it has none.
func (p *probe) over(t *Task, s *slot) {
	if p.out != nil {
		p.completed(t, s)
	}
	if !p.keepsNotes() {
		return
	}
	n := &t.more.noted
	if p.audit != nil && t.node.Flags&(flagWait|flagRecorded) != 0 {
		n.audited.Over(t.run.stopped.Load())
	}
	if p.watch != nil {
		n.watched.Over()
	}
	if race.Lint && t.node.Flags&flagRecorded == 0 {
		n.linted.Over()
	}
}

// completed records that t is over for good.
func (p *probe) completed(t *Task, s *slot) {
	if t.node.Flags&flagUnseen != 0 || t.id == 0 {
		return
	}
	if s != nil && t.node.Flags&flagWait != 0 {
		s.settle(false) // what is there is due to others
		s.probe.gives(t.id)
	}
	p.put(event.Completed, t.id, 0, 0)
	if t.node.Flags&flagRecorded == 0 {
		t.id = 0 // whoever has the memory next may not be recorded
	}
}

// again tells that t, which is a task of a recorded loop, is to be run once more.
func (p *probe) again(t *Task, round int64) {
	if p.out == nil {
		return
	}
	old := t.id
	if p.ev != nil {
		t.id = p.ev.NewID()
	} else {
		t.id = p.rec.NewID()
	}
	p.put(event.Again, t.id, old, uint64(round))
}

// waits tells what t's body is about to wait for, and goesOn that it does not wait any more.
func (p *probe) waits(t *Task, x *waiting) {
	if p.watch != nil {
		t.more.watched.Waits(watchdog.Wait{Op: x.op, What: x.what, On: x.on.watched, Due: x.due, Children: x.op == opWait, Passes: x.op == opWindow})
		p.shows()
	}
}

func (p *probe) goesOn(t *Task) {
	if p.watch != nil {
		t.more.watched.Begins()
	}
}

// waited tells that t's body, the caller, has waited for all its children.
func (p *probe) waited(t *Task) {
	p.goesOn(t)
	if race.Lint {
		t.more.linted.Waited()
	}
	if p.audit != nil && t.node.Parent == nil {
		t.more.audited.Settle()
	}
}

// joined tells that the caller has waited for the body of the task that n is of; all: for what descends from it, too.
func (p *probe) joined(n noted, all bool) {
	if race.Lint && n.linted != nil {
		n.linted.Joined(all)
	}
}

// gaveSlot and gotSlot tell that t's body waits without a slot, and has one again.
func (p *probe) gaveSlot(t *Task, reason uint64) { p.put(event.Blocked, t.id, reason, 0) }
func (p *probe) gotSlot(t *Task)                 { p.put(event.Resumed, t.id, 0, 0) }

// runFails tells that r ends early.
func (p *probe) runFails(r *run) { p.put(event.RunFailed, r.id, 0, 0) }

// runOver tells that r, whose main task had n, is over.
func (p *probe) runOver(r *run, n noted) {
	if p.audit != nil {
		n.audited.RunOver(r.first.Load() != nil)
	}
	if race.Lint && n.linted != nil {
		n.linted.Said()
	}
}

// notes returns what the observers keep of t; nothing if none of them keeps notes. Precondition: t
// is alive.
func (t *Task) notes() (n noted) {
	if p := t.run.rt.probe; p != nil && p.keepsNotes() {
		n = t.more.noted
	}
	return n
}

func (p *probe) keepsNotes() bool { return p.watch != nil || p.audit != nil || race.Lint }

// probeOf returns the probe of a caller that has slot s, or none.
func (rt *Runtime) probeOf(s *slot) *probe {
	if s != nil {
		return s.probe
	}
	return rt.probe
}
