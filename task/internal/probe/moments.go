// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/watchdog"
)

// The moments that a probe is told of. id is the number of the task that a moment is about, and n
// what the observers keep of it.

// Refused tells that the engine has refused the accesses of a new task.
func (p *Probe) Refused(id uint64, n Notes) {
	if id != 0 {
		p.Put(event.Refused, id, 0, 0)
	}
	if p.audit != nil {
		n.Audited.Drop()
	}
}

// MayRun tells that a task may run from the start. It comes before others can take the task. The
// error is the task's.
func (p *Probe) MayRun(n Notes) error {
	if p.audit == nil {
		return nil
	}
	return n.Audited.OpenAll()
}

// Queued tells that a task, which has a number if it is recorded, may start, or be resumed. It
// comes before others can take the task.
func (p *Probe) Queued(id uint64, resumes bool) {
	if p.Ev != nil && id != 0 {
		p.Ev.Queued(id, resumes)
	}
}

// QueuedBy is Queued for a caller without a slot. by is the number of the task whose end has made
// this one ready; zero for none.
func (p *Probe) QueuedBy(id, by uint64, resumes bool) {
	switch {
	case p.out == nil:
	case resumes:
		p.out.Put(event.Unblocked, id, 0, 0)
	default:
		p.out.Put(event.Ready, id, by, 0)
	}
}

// Late tells that time has passed on the slot since the last event.
func (p *Probe) Late() {
	if p.Ev != nil {
		p.Ev.Late()
	}
}

// SlotEvent tells what happens to the slot. id is zero where that is about no task.
func (p *Probe) SlotEvent(k event.Kind, id uint64) {
	if p.Ev == nil {
		return
	}
	if k != event.SlotGiven {
		p.Ev.Late()
	}
	p.Ev.Put(k, id, 0, 0)
}

// Loops tells that the caller begins to run tasks on the slot.
func (p *Probe) Loops() {
	if p.Ev != nil {
		p.Ev.Unlabel()
	}
}

// Stolen tells that the slot has taken a task, and more, from another one.
func (p *Probe) Stolen(id uint64, from, tasks int) {
	if p.Ev != nil {
		p.Ev.Late()
		p.Ev.Put(event.Stolen, id, uint64(from), uint64(tasks))
	}
}

// Sees makes the caller, a goroutine of the runtime's, come after what bodies have done, in lint
// mode. body: the goroutine may be that of a body as well.
func (p *Probe) Acquire(body bool) {
	if race.Lint {
		p.Lint.Acquire(body)
	}
}

// Shows makes what the caller has done come before what the runtime's goroutines do, in lint mode.
func (p *Probe) Release() {
	if race.Lint {
		p.Lint.Release()
	}
}

// Begins has the watchdog and debug mode know that the body begins. The error is the body's.
func (p *Probe) Begins(n Notes) error {
	p.GoesOn(n)
	if p.audit == nil {
		return nil
	}
	return n.Audited.Begins()
}

// Returns tells that the body is over, or is not to run.
func (p *Probe) Returns(n Notes) {
	if p.Watch != nil {
		n.Watched.Returns()
	}
}

// Prepared tells that the slot is about to look at the task's OnReady.
func (p *Probe) Prepared(id uint64) {
	if p.Ev != nil {
		p.Ev.Put(event.Prepared, id, 0, 0)
		p.Ev.Late()
	}
}

// HoldEnds tells that an event of a task has ended.
func (p *Probe) HoldEnds(id uint64, err error) {
	flags := uint64(0)
	if err != nil {
		flags = event.EndedFailed
	}
	p.Put(event.HoldDown, id, 0, flags)
}

// Names gives what tells that an event, which what describes and release ends, has ended.
func (p *Probe) AddEvent(n Notes, what any, release func(error)) func(error) {
	if p.Watch == nil {
		return release
	}
	end := n.Watched.AddEvent(what, release)
	p.Release()
	return end
}

// Released tells that the last event of a task has ended, with the body over: the accesses are
// about to be given up.
func (p *Probe) Released(id uint64) {
	p.Put(event.Released, id, 0, 0)
	p.ReadyBy(id)
}

// Gives tells that what becomes ready from now on does so by the task of a number; zero: by none.
func (p *Probe) ReadyBy(id uint64) {
	if p.Ev != nil {
		p.Ev.ReadyBy(id)
	}
}

// Releases tells that the body is about to give up a, and Refuses that the engine has refused that.
func (p *Probe) Releases(id uint64, n Notes, a chain.Access) {
	p.ReadyBy(id)
	if p.audit != nil {
		n.Audited.Release(a)
	}
	if p.Watch != nil {
		n.Watched.ReleasedEarly(a)
	}
	if race.Lint {
		n.Linted.Release(a)
	}
}

// Refuses is the answer to Releases.
func (p *Probe) Refuses(n Notes) {
	if p.audit != nil {
		n.Audited.TakeBack()
	}
}

// Finishes tells that the accesses are about to be given up, while descendants of the task may be
// alive. stopped: its body may not have run.
func (p *Probe) Finishes(n Notes, stopped bool) {
	if p.Watch != nil {
		n.Watched.GivesUp()
	}
	p.GivesUp(n, stopped)
}

// GivesUp has debug mode know that the accesses are about to be given up.
func (p *Probe) GivesUp(n Notes, stopped bool) {
	if p.audit != nil {
		n.Audited.Over(stopped)
	}
}

// Over tells that a task is over with its descendants, or, as one of a recorded loop, one of its
// runs.
func (p *Probe) Over(n Notes, loop bool) {
	if p.Watch != nil {
		n.Watched.Over()
	}
	if race.Lint && !loop {
		n.Linted.Over()
	}
}

// Again tells that a task of a recorded loop is to be run once more, and returns its new number.
func (p *Probe) Again(id uint64, round int64) uint64 {
	if p.out == nil {
		return id
	}
	n := p.NewID()
	p.Put(event.Again, n, id, uint64(round))
	return n
}

// Waits tells what the body is about to wait for, and GoesOn that it does not wait any more.
func (p *Probe) Waits(n Notes, x watchdog.Wait) {
	if p.Watch != nil {
		n.Watched.Waits(x)
		p.Release()
	}
}

// GoesOn is the end of Waits.
func (p *Probe) GoesOn(n Notes) {
	if p.Watch != nil {
		n.Watched.Begins()
	}
}

// Waited tells that the body, the caller, has waited for all children of its task. main: that is
// the main task of a run.
func (p *Probe) Waited(n Notes, main bool) {
	p.GoesOn(n)
	if race.Lint {
		n.Linted.Waited()
	}
	if p.audit != nil && main {
		n.Audited.Settle()
	}
}

// Joined tells that the caller has waited for the body of a task; all: for what descends from it,
// too.
func (p *Probe) Joined(n Notes, all bool) {
	if race.Lint && n.Linted != nil {
		n.Linted.Joined(all)
	}
}

// Joins calls f, which comes after all that a task and those below it have done.
func (p *Probe) Joins(n Notes, f func()) {
	joined := func() {
		p.Joined(n, true)
		f()
	}
	if n.Linted == nil || !p.Lints() {
		joined()
		return
	}
	p.Lint.Apart(joined, func(bool) {})
}

// Uses returns what is wrong with what the body says that it uses; "" if nothing is.
func (p *Probe) CheckUse(n Notes, accs []chain.Access) string {
	if p.audit == nil {
		return ""
	}
	return n.Audited.Uses(accs)
}

// Audits reports whether debug mode is on.
func (p *Probe) Audits() bool { return p.audit != nil }

// RunOver tells that a run, whose main task had n, is over.
func (p *Probe) RunOver(n Notes, failed bool) {
	if p.audit != nil {
		n.Audited.RunOver(failed)
	}
	if race.Lint && n.Linted != nil {
		n.Linted.RunEnds()
	}
}
