// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/deps"
	"weft/internal/chain"
	"weft/internal/event"
)

// Wait returns when all children that t has made so far are over, with all their
// descendants and events. It runs descendants that are ready; if there are none, it
// gives up the slot. It returns the error of the run if that has failed or was
// cancelled, else nil.
func (t *Task) Wait() error {
	s := t.enter("Wait")
	if t.node.Flags&flagLongSpawn != 0 {
		s = t.combineAll()
	}
	if s.probe != nil {
		// also while descendants run on top of t, which may be stuck there
		t.tellWaits(s.probe, &waiting{op: opWait})
	}
	for {
		left := t.spawned + t.count.Load()
		if s.delayedOf == t {
			left -= s.delayedN
		}
		if left == 0 {
			if s.delayedOf == t {
				// no other goroutine reads the counter
				t.spawned -= s.delayedN
				s.delayedOf, s.delayedN = nil, 0
			}
			break
		}
		if d := s.descendant(t); d != nil {
			s = s.execute(d)
			continue
		}
		if s.delayedOf != nil {
			s.flush()
			s.settle(false)
			continue
		}
		t.prepare(waiting{op: opWait})
		t.phase = phaseWait //bug:phase
		if t.count.Add(t.spawned) != 0 {
			t.park(s, event.BlockedWait)
		} else {
			t.unprepare()
		}
		t.phase = phaseBody
		t.spawned = 0
		break
	}
	if t.node.MaySweep() {
		t.node.Sweep(&t.slot.flow)
		t.slot.recycle()
	}
	if t.slot.probe != nil {
		t.slot.probe.Waited(t.notes(), t.node.Parent == nil)
	}
	return t.run.cause()
}

// WaitOn returns when t's earlier children have released what accs need: it is an
// empty undeferred task with these accesses, so it does not wait for the
// rest of those children, nor for children that do not use the objects. It returns the
// error of the run if that has failed or was cancelled, else nil.
//
// A weak access waits for nothing, as everywhere. A Reduce access would wait for nothing either;
// WaitOn panics if there is one.
func (t *Task) WaitOn(accs ...deps.Access) error {
	s := t.enter("WaitOn")
	list := accesses(accs)
	for _, a := range list {
		if a.Reduced() != nil {
			panic("task: WaitOn a Reduce access, which waits for nothing; name the object by deps.In")
		}
	}
	if t.node.Flags&flagLongSpawn != 0 {
		s = t.beforeSpawn(list)
		if t.node.Flags&flagRecorded != 0 {
			list = t.heldByLoop(list)
		}
	}
	c := s.newTask(t, func(*Task) error { return nil })
	if s.rt.cfg.TraceSpawns {
		c.label, c.pc = opWaitOn, s.rt.traced()
		c.node.Flags |= flagRare
	}
	t.runUndeferred(s, c, list, event.SpawnedUndeferred|spawnedWaitOn)
	return t.run.cause()
}

// Bounds of what runs on top of a body that waits. Beyond them the body gives up its slot, and the
// slot's loop, which has nothing beneath it on its stack, runs the same tasks. Each bound costs a
// Wait one park at most.
const (
	// walkMax is how many generations below t a descendant may be: the number of ancestors that are
	// compared for each task. (In task/forkjoin and its like nearly all descendants are children.)
	walkMax = 16

	// nestMax is how many bodies may be on top of a body, on one stack (guess: a megabyte or two
	// with frames of common size; Go ends a program at a gigabyte).
	nestMax = 1000
)

// descendant takes the newest task of the slot's queue if it is a near descendant of t. Only a
// descendant may run on top of t's body: t waits for it in any case, whereas an unrelated task
// could itself be waiting for t. While tasks with a priority are ready, only the first of them is
// considered.
func (s *slot) descendant(t *Task) *Task {
	if s.nested >= nestMax {
		return nil
	}
	if s.Urgent() {
		return fromNode(s.PopUrgent(func(n *chain.Node) bool { return fromNode(n).startsUnder(t) }))
	}
	n := s.Pop()
	if n == nil || fromNode(n).startsUnder(t) {
		return fromNode(n)
	}
	s.Push(n)
	return nil
}

// startsUnder reports whether x, which is ready, has not started and is found to descend from t. A
// task with an OnReady is left to slot.loop.
func (x *Task) startsUnder(t *Task) bool {
	if x.node.Flags&(flagResuming|flagOnReady) != 0 {
		return false
	}
	a := x.parent()
	for n := 0; n < walkMax && a != t && a != nil; n++ {
		a = a.parent()
	}
	return a == t
}
