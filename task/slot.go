// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"slices"

	"weft/internal/chain"
	"weft/internal/event"
)

// delayedMax is the largest number of completions that a slot delays: children of one parent that
// are over, and not yet subtracted from the parent's counter. The slot flushes them before it runs
// anything but another child of the same parent, so no wait depends on them.
const delayedMax = 64

// yieldEvery is how many tasks a slot runs between two calls of Go's scheduler. On a processor that
// is never idle, the collector's workers run only after preemption, which takes 10 ms. So the mark
// phase of a small heap lasts 10 ms instead of a fraction of a millisecond, and every pointer write
// in that time goes through the write barrier. Other goroutines of the program wait as long. (bench
// task/forkjoin takes a third less time; values from 128 to 1024 are alike.)
const yieldEvery = 256

// loop runs tasks until the slot is passed on or the runtime closes. s is the
// slot that the goroutine starts with; a body that blocks comes back with another one.
func (s *slot) loop() {
	s.take()
	if s.probe != nil {
		s.probe.Loops()
	}
	for {
		t := s.nextTask()
		if t == nil {
			s.Leave()
			s.rt.slots.wg.Done()
			return
		}
		if t.node.Flags&(flagResuming|flagOnReady) != 0 {
			if t.node.Flags&flagResuming != 0 {
				s.pass(t)
				return
			}
			if !s.onReady(t) || !t.admit(&s.flow, s.rt) {
				continue
			}
			if s.probe != nil {
				s.probe.Queued(t.id, t.node.Flags&flagResuming != 0)
			}
		}
		s = s.execute(t)
	}
}

// pass gives s to the goroutine of t, which waits for a slot.
func (s *slot) pass(t *Task) {
	s.flushBefore(t.parent())
	t.node.Flags &^= flagResuming
	s.tellSlot(event.SlotReleased, t.id)
	s.Leave()
	t.parker.wake.Send(s)
}

// execute runs t's body on this stack and then takes the steps that its end allows. It returns the
// slot that the goroutine holds afterwards.
func (s *slot) execute(t *Task) *slot {
	s.flushBefore(t.parent())
	outer := s.cur.load()
	s.cur.store(t)
	if s.probe != nil {
		s.probe.Acquire(outer != nil)
	}
	if t.slot = s; outer != nil {
		// Kept in outer and s, not in t: it would touch one more cache line of t. The two stores
		// are one batch of the write barrier.
		outer.outer, s.outer = s.outer, outer
		s.nested++
	}
	if s.ran++; s.ran%yieldEvery == 0 {
		runtime.Gosched()
		if s.probe != nil {
			s.probe.Late()
		}
	}
	var err error
	if !t.run.stopped.Load() {
		if s.probe != nil {
			err = t.callTold(s.probe)
		} else {
			err = t.callHere()
		}
	} else if s.probe != nil {
		t.tellSkipped(s.probe)
	}
	s = t.leave(outer)
	if err != nil {
		t.run.fail(err)
	}
	s.bodyOver(t)
	s.settle(outer == nil)
	return s
}

// leave takes t off its slot and gives the slot back to outer, the task beneath, if there is one.
// It returns the slot.
func (t *Task) leave(outer *Task) *slot {
	s := t.slot
	t.slot = nil
	s.cur.store(outer)
	if outer != nil {
		outer.slot, s.outer, outer.outer = s, outer.outer, nil // one batch, as in execute
		s.nested--
	}
	return s
}

// nextTask returns the next task to start or to resume; nil when the runtime closes.
func (s *slot) nextTask() *Task {
	for {
		if n, queued := s.Pick(); n != nil {
			if queued && s.probe != nil {
				s.probe.Late()
			}
			return fromNode(n)
		}
		if s.delayedOf != nil { //bug:delayed
			s.flush() // may make a parent ready
			s.settle(true)
			continue
		}
		if s.checks != s.rt.pool.Checks() {
			s.shrink()
		}
		n, closed := s.Hunt()
		if n != nil && s.probe != nil {
			s.probe.Late() // time has passed since the last task
		}
		if n != nil || closed {
			return fromNode(n)
		}
	}
}

// settle queues the tasks that the flow has made ready, and puts the tasks that it has freed on the
// free list. With next, the first task that became ready runs next on this slot.
func (s *slot) settle(next bool) {
	if !s.flow.Empty() {
		s.settleAll(next)
	}
}

func (s *slot) settleAll(next bool) {
	if next && s.Next == nil {
		s.Turns()
	}
	for n := s.flow.NextReady(); n != nil; n = s.flow.NextReady() {
		t := fromNode(n)
		if !t.admit(&s.flow, s.rt) {
			continue
		}
		if next && s.Next == nil && t.node.Flags&flagPriority == 0 {
			if s.probe != nil {
				s.probe.Queued(t.id, t.node.Flags&flagResuming != 0)
			}
			s.Next = n
			continue
		}
		s.ready(t)
	}
	s.recycle()
}

// A task with Commutative accesses takes one more step: it acquires all its objects together. This
// step comes last: after its accesses are satisfied, and after OnReady and its events. It comes
// before the task is queued, so queues have only tasks that have acquired their objects.

// admit reports whether t, which has become ready, may be queued or run by rt. It returns false if
// t waits for its commutative objects or belongs to another runtime; the caller must not touch t
// then. A task that waits for objects comes out of the Flow that gives back the last of them. A
// task whose OnReady has not been called is admitted, and queued for that call.
func (t *Task) admit(f *chain.Flow, rt *Runtime) bool {
	return !t.node.Commutes() || t.admitSlowly(f, rt)
}

func (t *Task) admitSlowly(f *chain.Flow, rt *Runtime) bool {
	switch {
	case t.node.Flags&flagOnReady != 0:
		return true
	case t.node.Exclusive():
		return t.node.Acquire(f) // if false, another goroutine may own t now
	case t.run.rt != rt: // the previous holder of the object belongs to another runtime
		t.run.rt.readyOutside(t)
		return false
	}
	return true
}

// heldByLoop returns accs for a child of t, a recorded task. Accesses to objects that the loop's
// task holds are marked as held: t has no accesses in the engine from which that would follow.
func (t *Task) heldByLoop(accs []chain.Access) []chain.Access {
	copied := false
	for i, a := range accs {
		if a.Reduced() == nil && t.parent().node.Holds(a) {
			if !copied {
				accs, copied = slices.Clone(accs), true
			}
			accs[i] = a.Held()
		}
	}
	return accs
}
