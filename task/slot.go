// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"slices"

	"weft/internal/chain"
	"weft/internal/event"
)

// overMax is how many children that are over a slot keeps back from their
// parent's counter. They are told anyway before the slot runs anything else than
// another child of the same parent, so nobody waits for them.
const overMax = 64

// yieldEvery is how many tasks a slot runs between two calls of Go's scheduler. A processor that is
// never idle gives the collector's workers no turn but by preemption, after 10 ms: the mark phase
// of a small heap, which needs a fraction of a millisecond, then lasts that long, and every pointer
// that is written meanwhile goes through the write barrier. Other goroutines of the program wait as
// long. (bench task/forkjoin: a third less; 128 to 1024 are alike.)
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

// pass gives s to the goroutine of t, which waits for one.
func (s *slot) pass(t *Task) {
	s.tellFor(t.parent())
	t.node.Flags &^= flagResuming
	s.tellSlot(event.SlotGiven, t.id)
	s.Leave()
	t.parker.wake.Send(s)
}

// execute runs t's body on this stack and then does what its end allows. It returns the
// slot that the goroutine holds afterwards.
func (s *slot) execute(t *Task) *slot {
	s.tellFor(t.parent())
	outer := s.cur.load()
	s.cur.store(t)
	if s.probe != nil {
		s.probe.Acquire(outer != nil)
	}
	if t.slot = s; outer != nil {
		// Here and not in t, of which this would be one cache line more. The two stores are one
		// batch of the write barrier.
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

// leave ends t's hold on its slot and gives it back to outer, the task beneath, if there
// is one. It returns the slot.
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
		if s.overOf != nil { //bug:kept-back
			s.tell() // may make a parent ready
			s.settle(true)
			continue
		}
		if s.looks != s.rt.pool.Checks() {
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

// settle queues what the flow made ready and takes in what it set free. With next, the
// first task that became ready runs next on this slot.
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

// A task with Commutative accesses has one more thing to wait for when nothing else holds it back:
// it takes all its objects together. So it does that after its accesses are satisfied and after
// OnReady and the events of that, and before it is queued; priorities and slots see only tasks that
// have their objects.

// admit reports whether t, which has become ready, may be queued or run by rt. If not, t waits for
// its objects, and comes out of the Flow of whoever gives back the last of them; or it is of
// another runtime, which has it now. It is not the caller's any more then. A task whose OnReady is
// still to be called is queued for that.
func (t *Task) admit(f *chain.Flow, rt *Runtime) bool {
	return !t.node.Commutes() || t.admitSlowly(f, rt)
}

func (t *Task) admitSlowly(f *chain.Flow, rt *Runtime) bool {
	switch {
	case t.node.Flags&flagOnReady != 0:
		return true
	case t.node.Exclusive():
		return t.node.Acquire(f) // else t may be somebody else's
	case t.run.rt != rt: // who had the object is not of t's runtime
		t.run.rt.readyOff(t)
		return false
	}
	return true
}

// heldByLoop returns accs for a child of t, a recorded task: t itself has no accesses that would
// say what the loop's task holds.
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
