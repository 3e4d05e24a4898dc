// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/chain"

// A task ends in three steps:
//
//	bodyOver   the body has returned
//	giveUp     … and all its events have ended: its accesses are released
//	deepDone   … and all its descendants are over: the parent's counter is changed
//
// Each step is taken once for a task, by the goroutine that makes its last condition true.

// bodyOver is added to Task.holds when the body is over.
const bodyOver = 1 << 30

// bodyOver takes the steps that the end of t's body allows.
func (s *slot) bodyOver(t *Task) {
	if t.node.Flags&(flagUndeferred|flagHeld) == 0 || s.bodyOverRarely(t) {
		s.rt.giveUp(t, s, &s.flow)
	}
}

// bodyOverRarely is the part of bodyOver that few tasks need. It reports whether t has no events.
func (s *slot) bodyOverRarely(t *Task) bool {
	if t.node.Flags&flagUndeferred != 0 && t.und.state.done() {
		s.rt.resume(t.und.creator)
	}
	// Only the body can take holds from zero to one, so zero is final here.
	if t.node.Flags&flagHeld != 0 && t.holds.Load() != 0 {
		if t.node.Flags&flagRare != 0 {
			t.dropLocks()
		}
		t.addIdle(1)
		s.rt.throttle.check()
		if t.holds.Add(bodyOver) != bodyOver { //bug:body-over
			return false
		}
		t.addIdle(-1)
		if s.probe != nil {
			s.probe.Released(t.id)
		}
	}
	return true
}

// giveUp releases t's accesses and, if no descendant is left, ends t. s is the caller's
// slot, nil if it has none; f is the caller's flow.
func (rt *Runtime) giveUp(t *Task, s *slot, f *chain.Flow) {
	if t.node.Flags&(flagWait|flagLongSpawn) == 0 {
		t.node.Finish(f)
	} else {
		t.finishRarely(s, f)
	}
	if t.node.Flags&flagLeaf == 0 && t.spawned != 0 {
		left := t.spawned + t.count.Load()
		if s != nil && s.delayedOf == t {
			if left -= s.delayedN; left == 0 {
				s.delayedOf, s.delayedN = nil, 0
			}
		}
		if left != 0 {
			t.phase = phaseEnded
			if t.count.Add(t.spawned) != 0 { //bug:arm-count
				return
			}
		}
	}
	p := rt.deepDone(t, s, f)
	switch {
	case p == nil:
	case s != nil:
		s.childOver(p)
	default:
		rt.childOverOutside(p, f)
	}
}

// finishRarely is what giveUp does for tasks with the attribute Wait, which keep their accesses,
// those with reductions, and those that observers keep notes of.
func (t *Task) finishRarely(s *slot, f *chain.Flow) {
	t.returnCopies(s)
	if t.node.Flags&flagWait == 0 {
		if p := t.run.rt.probe; p != nil {
			p.Finishes(t.notes(), t.run.stopped.Load())
		}
		t.node.Finish(f)
	}
}

// deepDone ends t for good and returns the parent, whose counter the caller has to change; nil if t
// was the main task of a run. The memory of t may serve another task afterwards.
func (rt *Runtime) deepDone(t *Task, s *slot, f *chain.Flow) *Task {
	if rt.probe != nil {
		t.tellOver(rt.probeOf(s), s)
	}
	if t.node.Flags&flagWait != 0 {
		if t.node.Flags&flagRecorded != 0 {
			return s.runOver(t, f)
		}
		t.node.Finish(f)
		rt.loopOver(t, s)
	}
	p := t.parent()
	if t.node.Flags&(flagMain|flagBlocks) == 0 {
		t.clear()
		if !t.node.Retire() {
			// the task comes out of a Flow later
		} else if s != nil {
			s.keep(t)
		} else {
			rt.keepOutside(t)
		}
		return p
	}
	r := t.run
	t.clearForGood()
	t.node.RetireForGood()
	if p == nil { // only a main task, which has flagMain
		r.end()
	}
	return p
}

// childOver counts one more child of p as over. The slot delays the subtraction from p's counter
// until there are delayedMax of them, or until the slot does anything but run another child of p.
// Until then p cannot be over anyway.
func (s *slot) childOver(p *Task) {
	if s.delayedOf != p {
		s.flush()
		s.delayedOf = p
	}
	if s.delayedN++; s.delayedN >= delayedMax {
		s.flush()
	}
}

// flush subtracts the delayed completions from the parent's counter. If that ends the parent, flush
// goes on with the grandparent, and so on. At the end it checks the throttle.
func (s *slot) flush() {
	for s.delayedOf != nil {
		p, n := s.delayedOf, s.delayedN
		s.delayedOf, s.delayedN = nil, 0
		if p.count.Add(-n) == 0 {
			if p.phase == phaseWait {
				s.rt.resume(p)
			} else if q := s.rt.deepDone(p, s, &s.flow); q != nil {
				s.delayedOf, s.delayedN = q, 1
			}
		}
	}
	s.rt.throttle.check()
}

// flushBefore is called before the slot runs the body of p or of a child of p. It flushes the
// completions of any other parent. What becomes ready is queued at once, since the body may run for
// long.
func (s *slot) flushBefore(p *Task) {
	if s.delayedOf != nil && s.delayedOf != p {
		s.flushNow()
	}
}

func (s *slot) flushNow() {
	s.flush()
	s.settle(false)
}

// childOverOutside is childOver and flush for a caller without a slot.
func (rt *Runtime) childOverOutside(p *Task, f *chain.Flow) {
	for p != nil && p.count.Add(-1) == 0 {
		if p.phase == phaseWait {
			rt.resume(p)
			break
		}
		p = rt.deepDone(p, nil, f)
	}
	rt.throttle.check()
}
