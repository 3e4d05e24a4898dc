// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/internal/xatomic"
	"weft/task/internal/sched"
)

// Hold binds an event to t: the task is not over, and does not release its accesses, until the body
// has returned and each Hold's function has been called. So a task can wait for a completion
// without a stack and without a slot; package tampi binds requests this way.
//
// The returned function ends the event. Any goroutine may call it; the first
// call counts and later ones do nothing. An error ends the run, as if the body had returned it.
//
// Besides the body, any goroutine may call Hold while an event of t is pending.
// Hold panics if none is pending, since the task may be over then.
func (t *Task) Hold() func(error) { return t.HoldFor(nil) }

// HoldFor is [Task.Hold] with a description of the event. The watchdog prints what, by its String
// method if it has one, where it lists what a task waits for. Any goroutine must be able to print
// what safely at any time.
func (t *Task) HoldFor(what any) func(error) {
	release := t.hold() // t is not over before release is called
	if p := t.run.rt.probe; p != nil {
		return p.AddEvent(t.notes(), what, release)
	}
	return release
}

// errNoEvent is the panic of Hold if nothing keeps the task alive.
const errNoEvent = "task: Hold from outside the body of a task that has no pending event"

func (t *Task) hold() func(error) {
	if t.run == nil {
		panic(errNoEvent)
	}
	s := t.run.rt.here()
	if s != nil && s.cur.load() == t || sched.Goid() == 0 {
		t.addEvent()
	} else {
		for counted := false; !counted; {
			n := t.holds.Load()
			if n&^(bodyOver|startHeld) == 0 {
				panic(errNoEvent)
			}
			counted = t.holds.CompareAndSwap(n, n+1)
		}
	}
	if rt := t.run.rt; rt.probe != nil {
		rt.probeOf(s).Put(event.HoldUp, t.id, 0, 0)
	}
	return (&hold{t: t}).release
}

// hold is one event. The program may keep and call the event's function for as long as it likes.
// Only the first call, which sets done, uses t: afterwards t may be over, and its memory another
// task's.
type hold struct {
	t    *Task // nil when the event has ended; used only by the call that sets done
	done xatomic.Bool
}

func (h *hold) release(err error) {
	if !h.done.CompareAndSwap(false, true) { //bug:end-once
		return
	}
	t := h.t
	h.t = nil
	rt, id := t.run.rt, uint64(0)
	if rt.probe != nil {
		id = t.id
		if race.Lint {
			t.more.noted.Linted.Prepared() // it may be one of OnReady's
			t.lintEnds()
		}
		rt.probeOf(rt.here()).HoldEnds(id, err)
	}
	if err != nil {
		t.run.fail(t.wrap(err, nil, nil))
	}
	if n := t.holds.Add(-1); n != bodyOver {
		if n == startHeld {
			t.startHeld()
		}
		return
	}
	// The body is over and this was the last event.
	t.addIdle(-1)
	if s := rt.here(); s != nil {
		if s.probe != nil {
			s.probe.Released(t.id)
		}
		rt.giveUp(t, s, &s.flow)
		s.flushBefore(s.cur.load())
		s.settle(false)
		if s.probe != nil {
			s.probe.ReadyBy(0)
		}
		return
	}
	race.Disable()
	f := flows.Get().(*chain.Flow)
	race.Enable()
	if rt.probe != nil {
		rt.probe.Released(t.id)
	}
	rt.giveUp(t, nil, f)
	for n := f.NextReady(); n != nil; n = f.NextReady() {
		if t := fromNode(n); t.admit(f, rt) {
			rt.readyBy(t, id)
		}
	}
	rt.recycle(f)
	race.Disable()
	flows.Put(f)
	race.Enable()
}
