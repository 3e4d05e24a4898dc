// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/chain"

// A task ends in three steps, which the numbers of its counters gate:
//
//	bodyOver   the body has returned
//	giveUp     … and its events are zero: the accesses are released
//	deepDone   … and all descendants are over: the parent is told
//
// Each is called once for a task, by whoever makes the last condition true.

// bodyOver is the marker in Task.holds that the body is over.
const bodyOver = 1 << 30

// bodyOver does what the end of t's body allows.
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
		s.rt.window.look()
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
		if s != nil && s.overOf == t {
			if left -= s.overN; left == 0 {
				s.overOf, s.overN = nil, 0
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
		s.over(p)
	default:
		rt.overOff(p, f)
	}
}

// finishRarely is what giveUp does for tasks with the attribute Wait, which keep their accesses,
// those with reductions, and those that observers keep notes of.
func (t *Task) finishRarely(s *slot, f *chain.Flow) {
	t.giveCopies(s)
	if t.node.Flags&flagWait == 0 {
		if p := t.run.rt.probe; p != nil {
			p.Finishes(t.notes(), t.run.stopped.Load())
		}
		t.node.Finish(f)
	}
}

// deepDone ends t for good and returns the parent, which is to be told; nil if t was
// the main task of a run. The memory of t may serve another task afterwards.
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
			// It comes out of a Flow.
		} else if s != nil {
			s.keep(t)
		} else {
			rt.keepOff(t)
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

// over notes that one more child of p is over. The parent's counter learns of it later:
// when there are overMax of them, or before the slot does anything but run another
// child of p. Until then p cannot be over anyway.
func (s *slot) over(p *Task) {
	if s.overOf != p {
		s.tell()
		s.overOf = p
	}
	if s.overN++; s.overN >= overMax {
		s.tell()
	}
}

// tell brings the parents' counters up to date.
func (s *slot) tell() {
	for s.overOf != nil {
		p, n := s.overOf, s.overN
		s.overOf, s.overN = nil, 0
		if p.count.Add(-n) == 0 {
			if p.phase == phaseWait {
				s.rt.resume(p)
			} else if q := s.rt.deepDone(p, s, &s.flow); q != nil {
				s.overOf, s.overN = q, 1
			}
		}
	}
	s.rt.window.look()
}

// tellFor is tell before the slot goes to a body other than one of p's, or of a child
// of p. What became ready is queued, since the body may run for long.
func (s *slot) tellFor(p *Task) {
	if s.overOf != nil && s.overOf != p {
		s.tellNow()
	}
}

func (s *slot) tellNow() {
	s.tell()
	s.settle(false)
}

// overOff is over and tell for a caller without a slot.
func (rt *Runtime) overOff(p *Task, f *chain.Flow) {
	for p != nil && p.count.Add(-1) == 0 {
		if p.phase == phaseWait {
			rt.resume(p)
			break
		}
		p = rt.deepDone(p, nil, f)
	}
	rt.window.look()
}
