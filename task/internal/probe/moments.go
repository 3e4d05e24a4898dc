// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/watchdog"
)

// These are the moments at which the runtime calls a probe. id is the number of the task in the
// recording, and n are its notes.

// Refused is called after the engine has refused the accesses of a new task.
func (p *Probe) Refused(id uint64, n Notes) {
	if id != 0 {
		p.Put(event.Refused, id, 0, 0)
	}
	if p.audit != nil {
		n.Audited.Drop()
	}
}

// MayRun is called for a new task that may run at once, before a slot can take it. The error is the
// task's.
func (p *Probe) MayRun(n Notes) error {
	if p.audit == nil {
		return nil
	}
	return n.Audited.OpenAll()
}

// Queued is called when a task may start, or be resumed, before a slot can take it. id is zero if
// the task is not recorded.
func (p *Probe) Queued(id uint64, resumes bool) {
	if p.Ev != nil && id != 0 {
		p.Ev.Queued(id, resumes)
	}
}

// QueuedBy is Queued for a caller without a slot. by is the number of the task whose end has made
// the task ready; zero for none.
func (p *Probe) QueuedBy(id, by uint64, resumes bool) {
	switch {
	case p.out == nil:
	case resumes:
		p.out.Put(event.Unblocked, id, 0, 0)
	default:
		p.out.Put(event.Ready, id, by, 0)
	}
}

// Late is called when time has passed on the slot since its last trace event.
func (p *Probe) Late() {
	if p.Ev != nil {
		p.Ev.Late()
	}
}

// SlotEvent records a trace event of the slot. id is zero if it is about no task.
func (p *Probe) SlotEvent(k event.Kind, id uint64) {
	if p.Ev == nil {
		return
	}
	if k != event.SlotReleased {
		p.Ev.Late()
	}
	p.Ev.Put(k, id, 0, 0)
}

// Loops is called when the caller begins to run tasks on the slot.
func (p *Probe) Loops() {
	if p.Ev != nil {
		p.Ev.Unlabel()
	}
}

// Stolen is called after the slot has stolen tasks from another slot; id is the first task's.
func (p *Probe) Stolen(id uint64, from, tasks int) {
	if p.Ev != nil {
		p.Ev.Late()
		p.Ev.Put(event.Stolen, id, uint64(from), uint64(tasks))
	}
}

// Acquire orders the caller, a goroutine of the runtime, after everything that bodies have done so
// far, in lint mode. body: the goroutine may be that of a body as well.
func (p *Probe) Acquire(body bool) {
	if race.Lint {
		p.Lint.Acquire(body)
	}
}

// Release orders what the caller has done before what the runtime's goroutines do after Acquire, in
// lint mode.
func (p *Probe) Release() {
	if race.Lint {
		p.Lint.Release()
	}
}

// Begins is called when the body begins. The error is the body's.
func (p *Probe) Begins(n Notes) error {
	p.GoesOn(n)
	if p.audit == nil {
		return nil
	}
	return n.Audited.Begins()
}

// Returns is called when the body is over, or is skipped.
func (p *Probe) Returns(n Notes) {
	if p.Watch != nil {
		n.Watched.Returns()
	}
}

// Prepared is called before the slot calls the task's OnReady.
func (p *Probe) Prepared(id uint64) {
	if p.Ev != nil {
		p.Ev.Put(event.Prepared, id, 0, 0)
		p.Ev.Late()
	}
}

// HoldEnds is called when an event of a task has ended.
func (p *Probe) HoldEnds(id uint64, err error) {
	flags := uint64(0)
	if err != nil {
		flags = event.EndedFailed
	}
	p.Put(event.HoldDown, id, 0, flags)
}

// AddEvent tells the watchdog of an event that what describes and release ends. It returns the
// function that must be called instead of release.
func (p *Probe) AddEvent(n Notes, what any, release func(error)) func(error) {
	if p.Watch == nil {
		return release
	}
	end := n.Watched.AddEvent(what, release)
	p.Release()
	return end
}

// Released is called when the last event of a task has ended and its body is over, before the
// accesses are given up.
func (p *Probe) Released(id uint64) {
	p.Put(event.Released, id, 0, 0)
	p.ReadyBy(id)
}

// ReadyBy notes that tasks which become ready from now on do so by the end of task id; zero: by
// none.
func (p *Probe) ReadyBy(id uint64) {
	if p.Ev != nil {
		p.Ev.ReadyBy(id)
	}
}

// Releases is called before the body gives up a early, and Refuses after the engine has refused
// that.
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

// Refuses undoes Releases for debug mode.
func (p *Probe) Refuses(n Notes) {
	if p.audit != nil {
		n.Audited.TakeBack()
	}
}

// Finishes is called before the accesses are given up, while descendants of the task may be alive.
// stopped: the task's body may not have run.
func (p *Probe) Finishes(n Notes, stopped bool) {
	if p.Watch != nil {
		n.Watched.GivesUp()
	}
	p.GivesUp(n, stopped)
}

// GivesUp tells debug mode that the accesses are about to be given up.
func (p *Probe) GivesUp(n Notes, stopped bool) {
	if p.audit != nil {
		n.Audited.Over(stopped)
	}
}

// Over is called when a task and its descendants are over; for a task of a recorded loop (loop),
// when one of its runs is over.
func (p *Probe) Over(n Notes, loop bool) {
	if p.Watch != nil {
		n.Watched.Over()
	}
	if race.Lint && !loop {
		n.Linted.Over()
	}
}

// Again is called before a task of a recorded loop is run once more. It returns the task's new
// number.
func (p *Probe) Again(id uint64, round int64) uint64 {
	if p.out == nil {
		return id
	}
	n := p.NewID()
	p.Put(event.Again, n, id, uint64(round))
	return n
}

// Waits is called before the body waits for x, and GoesOn when it continues.
func (p *Probe) Waits(n Notes, x watchdog.Wait) {
	if p.Watch != nil {
		n.Watched.Waits(x)
		p.Release()
	}
}

// GoesOn is called when the body runs: at its begin, and after Waits.
func (p *Probe) GoesOn(n Notes) {
	if p.Watch != nil {
		n.Watched.Begins()
	}
}

// Waited is called by a body after it has waited for all children of its task. main: the task is
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

// Joined is called after the caller has waited for the body of a task; all: for its descendants
// too.
func (p *Probe) Joined(n Notes, all bool) {
	if race.Lint && n.Linted != nil {
		n.Linted.Joined(all)
	}
}

// Joins calls f, ordered after everything that a task and its descendants have done.
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

// CheckUse returns why the body may not use memory as accs say; "" if it may.
func (p *Probe) CheckUse(n Notes, accs []chain.Access) string {
	if p.audit == nil {
		return ""
	}
	return n.Audited.Uses(accs)
}

// Audits reports whether debug mode is on.
func (p *Probe) Audits() bool { return p.audit != nil }

// RunOver is called when a run is over; n are the notes of its main task.
func (p *Probe) RunOver(n Notes, failed bool) {
	if p.audit != nil {
		n.Audited.RunOver(failed)
	}
	if race.Lint && n.Linted != nil {
		n.Linted.RunEnds()
	}
}
