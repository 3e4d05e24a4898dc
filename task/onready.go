// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime/debug"

	"weft/internal/chain"
	"weft/internal/race"
)

// A task with an OnReady goes through two more states between ready and running:
//
//	ready     flagOnReady is set; holds is zero
//	called    a slot runs OnReady; holds is one plus the events, so any goroutine may call Hold
//	held      OnReady is over; holds is startHeld plus the events, which are not zero
//	starting  holds is zero again, for the body; queued, or run by the slot that called OnReady
//
// The goroutine that makes holds equal to startHeld starts the body: the slot after OnReady if
// there are no events, else the last event.

// startHeld is added to Task.holds when OnReady is over, and subtracted before the body begins.
const startHeld = 1 << 29

// onReady calls t's OnReady and reports whether the body may start. If not, the last event will
// queue t. During the call s has no current task, so methods that wait or spawn are refused, those
// of the task beneath too.
func (s *slot) onReady(t *Task) bool {
	if s.probe != nil {
		s.probe.Prepared(t.id)
	}
	if t.run.stopped.Load() {
		t.node.Flags &^= flagOnReady
		return true // to be skipped
	}
	s.flushBefore(t.parent())
	t.addEvent()
	outer := s.cur.load()
	s.cur.store(nil)
	err := s.callOnReady(t, outer)
	s.cur.store(outer)
	if err != nil {
		t.run.fail(err)
	}
	start := t.mayStart()
	s.settle(false)
	return start
}

// callOnReady calls t's OnReady and turns its panic into an error.
func (s *slot) callOnReady(t, outer *Task) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			err = t.wrap(panicError(r), r, debug.Stack())
			return
		}
		// The goroutine ends, and with it the bodies beneath: see goexit.
		s.cur.store(outer)
		t.run.fail(t.wrap(errGoexit, nil, nil))
		if t.mayStart() && t.admit(&s.flow, s.rt) {
			s.ready(t)
		}
		s.settle(false)
		if outer == nil {
			s.handOver()
		}
	}()
	if race.Lint && s.probe != nil {
		var panicked error
		if err, panicked = t.onReadyApart(s); panicked != nil {
			returned = true
			return panicked
		}
	} else {
		err = t.more.onReady(t)
	}
	returned = true
	if err != nil {
		err = t.wrap(err, nil, nil)
	}
	return err
}

// mayStart ends the call of OnReady and reports whether there are no events.
func (t *Task) mayStart() bool {
	t.node.Flags &^= flagOnReady // before another goroutine may queue t //bug:once
	if t.holds.CompareAndSwap(1, 0) {
		return true
	}
	t.addIdle(1)
	t.run.rt.throttle.check()
	if t.holds.Add(startHeld-1) != startHeld {
		return false
	}
	t.addIdle(-1)
	t.holds.Add(-startHeld)
	return true
}

// startHeld queues t, whose last event before the body has ended.
func (t *Task) startHeld() {
	t.holds.Add(-startHeld)
	t.addIdle(-1)
	rt := t.run.rt
	if s := rt.here(); s != nil {
		if t.admit(&s.flow, s.rt) {
			s.ready(t)
		}
		return
	}
	race.Disable()
	f := flows.Get().(*chain.Flow)
	race.Enable()
	if t.admit(f, rt) {
		rt.readyOutside(t)
	}
	race.Disable()
	flows.Put(f)
	race.Enable()
}
