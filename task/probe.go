// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/deps"
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/audit"
	"weft/task/internal/watchdog"
)

// A probe is the one seam between the runtime and those that observe its tasks: the recording, the
// watchdog, debug mode and lint mode. The runtime tells it what happens, at the places named by its
// methods, and looks at nothing but whether there is a probe. A runtime that nobody observes has
// none, so what is not observed costs one look at a pointer.
//
// Each slot has a probe of its own, which belongs to the holder of the slot; goroutines without a
// slot share the runtime's. The probe that a method is called of is the caller's.
type probe struct {
	rt    *Runtime
	ev    *events            // the slot's; nil if there is no recording, or no slot
	out   *event.Shared      // what goroutines without a slot record with; nil if there is no recording
	watch *watchdog.Watchdog // nil without a watchdog
	audit *audit.Audit       // nil without debug mode
	lint  *lint              // nil in a build that is not for lint mode
}

// noted is what the observers keep of a task. It stays valid when the task's memory serves another.
type noted struct {
	audited *audit.Record
	watched *watchdog.Record
	linted  *linted
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

// observe gives rt, which does not run yet, the observers that its configuration asks for.
func (rt *Runtime) observe() {
	p := probe{rt: rt}
	if race.Lint {
		p.lint = newLint(rt.cfg.Lint)
	}
	if rt.cfg.Debug {
		p.audit = audit.New(rt.cfg.Logger)
	}
	if rt.cfg.Watchdog > 0 {
		p.watch = watchdog.New(watchdog.Config{Limit: rt.cfg.Watchdog, Out: rt.cfg.Reports, Slots: rt.cfg.Workers, Sees: func() { rt.probe.sees(false) }})
	}
	rec := newRecording(rt)
	if p.lint == nil && p.audit == nil && p.watch == nil && rec == nil {
		return
	}
	if rec != nil {
		p.out = rec.out
	}
	rt.probe = &p
	for i, s := range rt.slots.all {
		own := p
		if rec != nil {
			own.ev = rec.slots[i]
		}
		s.probe = &own
	}
}

// open starts what the observers do by themselves, and stop ends it: before the slots end.
func (p *probe) open() {
	if p.watch != nil {
		p.watch.Open()
	}
}

func (p *probe) stop() {
	if p.watch != nil {
		p.watch.Close()
	}
}

// close ends what the observers keep. The slots have ended.
func (p *probe) close() {
	if p.lint != nil {
		p.lint.close()
	}
	if p.out == nil {
		return
	}
	for _, s := range p.rt.slots.all {
		s.probe.ev.ring.Retire()
	}
	p.out.Retire()
	p.rt.cfg.Trace.Detach()
}

// put records an event.
func (p *probe) put(k event.Kind, a, b, c uint64) {
	switch {
	case p.ev != nil:
		p.ev.put(k, a, b, c)
	case p.out != nil:
		p.out.Put(k, a, b, c)
	}
}

// runBegins tells of a run that is about to begin.
func (p *probe) runBegins(r *run) {
	if p.out != nil {
		r.id = p.rt.cfg.Trace.TaskIDs(1)
	}
}

// mainSpawned tells of t, the main task of a run.
func (p *probe) mainSpawned(t *Task) {
	if p.out != nil {
		rec := p.rt.cfg.Trace
		t.id = t.run.id
		p.out.Put(event.Spawned, t.id, 0, t.describe(rec.Names(), p.rt.stackOfRun(), event.SpawnedMain))
	}
	p.keep(nil, nil, t, nil, 0)
}

// keep has the observers that keep notes make some of c, a new child of t; nil if c is a main task.
func (p *probe) keep(s *slot, t, c *Task, accs []deps.Access, flags uint8) {
	if !p.keepsNotes() {
		return
	}
	loop := flags&event.SpawnedLoop != 0
	n := &c.rare().noted
	c.Flags |= flagLongSpawn
	if p.watch != nil {
		at, parent := -1, (*watchdog.Record)(nil)
		if t != nil {
			at, parent = s.id, t.more.watched
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
		n.linted = p.lint.note(t, c, accs, loop)
	}
}

// spawnedWaitOn is a flag of spawned beside those of event.Spawned: c is the task of a WaitOn.
const spawnedWaitOn = 1 << 7

// spawned tells of c, a new child of t, which is complete but not registered: nobody else knows it.
func (p *probe) spawned(t, c *Task, accs []deps.Access, flags uint8) {
	if p.ev != nil {
		p.ev.spawned(c, accs, flags&^spawnedWaitOn)
	}
	p.keep(t.slot, t, c, accs, flags)
}

// register registers c as a child of t, and tells if the engine refuses its accesses.
func (p *probe) register(t, c *Task, accs []deps.Access, f *deps.Flow) bool {
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
	isReady := t.Node.Register(&c.Node, accs, f)
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
	if p.ev != nil {
		p.ev.queued(t)
	}
}

// queuedBy is queued for a caller without a slot. by is the number of the task whose end has made t
// ready; zero for none.
func (p *probe) queuedBy(t *Task, by uint64) {
	switch {
	case p.out == nil:
	case t.Flags&flagResuming != 0:
		p.out.Put(event.Unblocked, t.id, 0, 0)
	default:
		p.out.Put(event.Ready, t.id, by, 0)
	}
}

// late tells that time has passed on the slot since the last event.
func (p *probe) late() {
	if p.ev != nil {
		p.ev.fresh = false
	}
}

// slotEvent tells what happens to the slot.
func (p *probe) slotEvent(k event.Kind, to *Task) {
	if p.ev == nil {
		return
	}
	if k != event.SlotGiven {
		p.ev.fresh = false
	}
	id := uint64(0)
	if to != nil {
		id = to.id
	}
	p.ev.put(k, id, 0, 0)
}

// loops tells that the caller begins to run tasks on the slot.
func (p *probe) loops() {
	if p.ev != nil {
		p.ev.unlabel()
	}
}

// stolen tells that the slot has taken t, and more tasks, from another one.
func (p *probe) stolen(t *Task, from *slot, tasks int) {
	if p.ev != nil {
		p.ev.fresh = false
		p.ev.put(event.Stolen, t.id, uint64(from.id), uint64(tasks))
	}
}

// sees makes the caller, a goroutine of the runtime's, come after what bodies have done, in lint mode. body:
// it may be the goroutine of one as well.
func (p *probe) sees(body bool) {
	if race.Lint {
		p.lint.sees(body)
	}
}

// shows makes what the caller has done come before what the runtime's goroutines do, in lint mode.
func (p *probe) shows() {
	if race.Lint {
		race.Release(&p.lint.world)
	}
}

// call runs t's body, with what goes before and after it.
func (p *probe) call(t *Task) error {
	if race.Lint && p.lint.off == nil {
		return p.callApart(t)
	}
	err := p.callHere(t)
	p.sees(t.slot.outer != nil)
	return err
}

// callHere is call on this goroutine. The body may come back with another slot.
func (p *probe) callHere(t *Task) (err error) {
	if race.Lint {
		t.more.linted.start() // first: what the others do, the body's goroutine does
	}
	if p.ev != nil {
		p.ev.begins(t, t.slot.outer, event.Started)
	}
	if p.watch != nil {
		t.more.watched.Begins()
	}
	if p.audit != nil {
		if err = t.more.audited.Begins(); err != nil {
			err = t.wrap(err, nil, nil)
		}
	}
	switch {
	case err != nil:
	case p.ev != nil && p.ev.annotator != nil:
		err = p.ev.annotator.call(t)
	default:
		err = t.callHere()
	}
	t.slot.probe.ended(t, err != nil)
	return err
}

// ended tells that t's body is over, and what it has bound to t. The caller is the body's goroutine.
func (p *probe) ended(t *Task, failed bool) {
	if p.ev != nil {
		p.ev.ended(t, failed)
	}
	if p.watch != nil {
		t.more.watched.Returns()
	}
	if race.Lint {
		t.more.linted.end(t)
	}
}

// skipped tells that t's body is not run, since the run has ended.
func (p *probe) skipped(t *Task) {
	if p.ev != nil {
		p.ev.begins(t, t.slot.outer, event.Skipped)
		p.ev.ended(t, false)
	}
	if p.watch != nil {
		t.more.watched.Returns()
	}
}

// onReady calls t's OnReady. A panic passes on, or is what it returns second.
func (p *probe) onReady(t *Task, s *slot) (err, panicked error) {
	if race.Lint {
		return p.onReadyApart(t, s)
	}
	return t.more.onReady(t), nil
}

// prepared tells that the slot is about to look at t's OnReady.
func (p *probe) prepared(t *Task) {
	if p.ev != nil {
		p.ev.put(event.Prepared, t.id, 0, 0)
		p.ev.fresh = false
	}
}

// holds tells that an event of t has begun, and holdEnds that it has ended.
func (p *probe) holds(t *Task) { p.put(event.HoldUp, t.id, 0, 0) }

func (p *probe) holdEnds(t *Task, err error) {
	if race.Lint {
		t.more.linted.eventEnds(t)
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
		p.ev.by = id
	}
}

// releases tells that t's body is about to give up a, and keeps that the engine has refused that.
func (p *probe) releases(t *Task, a deps.Access) {
	p.gives(t.id)
	if p.audit != nil {
		t.more.audited.Release(a)
	}
	if p.watch != nil {
		t.more.watched.GaveEarly(a)
	}
	if race.Lint {
		t.more.linted.release(a)
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
	if p.audit != nil && t.Flags&(flagWait|flagRecorded) != 0 {
		n.audited.Over(t.run.stopped.Load())
	}
	if p.watch != nil {
		n.watched.Over()
	}
	if race.Lint && t.Flags&flagRecorded == 0 {
		n.linted.forgets()
	}
}

// completed records that t is over for good.
func (p *probe) completed(t *Task, s *slot) {
	if t.Flags&flagUnseen != 0 || t.id == 0 {
		return
	}
	if s != nil && t.Flags&flagWait != 0 {
		s.settle(false) // what is there is due to others
		s.probe.gives(t.id)
	}
	p.put(event.Completed, t.id, 0, 0)
	if t.Flags&flagRecorded == 0 {
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
		t.id = p.ev.newID()
	} else {
		t.id = p.rt.cfg.Trace.TaskIDs(1)
	}
	p.put(event.Again, t.id, old, uint64(round))
}

// loopBegins tells that the tasks of a recorded loop, t, are about to start.
func (p *probe) loopBegins(t *Task, r *replay) {
	if race.Lint {
		r.lintLoop(t)
	}
}

// takes tells that t, which has nothing else to wait for, is about to take the objects of its
// Commutative accesses, or that it has them.
func (p *probe) takes(t *Task, about bool) {
	if p.watch != nil {
		t.more.watched.Takes(about)
	}
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
		t.more.linted.waited()
	}
	if p.audit != nil && t.Parent == nil {
		t.more.audited.Settle()
	}
}

// joined tells that the caller has waited for the body of the task that n is of; all: for what descends from it, too.
func (p *probe) joined(n noted, all bool) {
	if race.Lint && n.linted != nil {
		n.linted.joined(all)
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
		race.Release(&n.linted.done) // what was said comes before the end of a Wait
		p.shows()
	}
}
