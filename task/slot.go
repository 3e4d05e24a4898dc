// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"slices"

	"weft/internal/chain"
	"weft/internal/event"
	"weft/task/internal/pool"
	"weft/task/internal/sched"
)

// A slot is the right to run tasks. Exactly one goroutine holds it at a time, and only
// that one touches the fields below "owned"; it hands them over with the slot,
// through a channel.
type slot struct {
	sched.Slot
	rt *Runtime // constant

	// Owned by the holder.
	cur     current       // task whose body runs; the innermost one, if several are nested
	outer   *Task         // task whose Wait cur runs under, on the same stack; nil where cur is
	nested  int32         // bodies beneath cur on its stack
	flow    chain.Flow    // work list for tokens; not in use while a body runs
	free    []*chain.Node // tasks to be used again, the warmest last
	overOf  *Task         // parent of overN children that are over and not counted yet
	overN   int64
	und     *undeferred // for the next undeferred task, or nil
	ran     uint32
	polling bool   // the holder is in functions of Poll
	looks   uint32 // rt.pool.Looks() when the slot was shrunk last
	probe   *probe // nil if nobody observes the runtime; constant
}

// fresh is how many tasks a slot allocates when it has none. Each is by itself, so that one that is in use keeps no other
// from the collector. They fill cache lines: 320 bytes is a size of Go's allocator, and what has up to 512 bytes has no
// header (TestTasksAreAligned).
const fresh = 2 * pool.Batch

// freeMax is how many free tasks a slot has at most. With more than fresh, a creator whose tasks end on other slots does not take back what it has just given away.
const freeMax = fresh + pool.Batch

// overMax is how many children that are over a slot keeps back from their
// parent's counter. They are told anyway before the slot runs anything else than
// another child of the same parent, so nobody waits for them.
const overMax = 64

// yieldEvery is how many tasks a slot runs between two calls of Go's scheduler. A processor that is
// never idle gives the collector's workers no turn but by preemption, after 10 ms: the mark phase of a small heap,
// which needs a fraction of a millisecond, then lasts that long, and every pointer that is written meanwhile goes through the write
// barrier. Other goroutines of the program wait as long. (bench task/forkjoin: a third less; 128 to 1024 are alike.)
const yieldEvery = 256

// loop runs tasks until the slot is passed on or the runtime closes. s is the
// slot that the goroutine starts with; a body that blocks comes back with another one.
func (s *slot) loop() {
	s.take()
	if s.probe != nil {
		s.probe.loops()
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
				s.probe.queued(t)
			}
		}
		s = s.execute(t)
	}
}

// take makes the caller the holder of s.
func (s *slot) take() {
	s.Take()
	if s.probe != nil {
		s.probe.slotEvent(event.SlotTaken, nil)
	}
}

// pass gives s to the goroutine of t, which waits for one.
func (s *slot) pass(t *Task) {
	s.tellFor(t.parent())
	t.node.Flags &^= flagResuming
	if s.probe != nil {
		s.probe.slotEvent(event.SlotGiven, t)
	}
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
		s.probe.sees(outer != nil)
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
			s.probe.late()
		}
	}
	var err error
	if !t.run.stopped.Load() {
		if s.probe != nil {
			err = s.probe.call(t)
		} else {
			err = t.callHere()
		}
	} else if s.probe != nil {
		s.probe.skipped(t)
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
				s.probe.late()
			}
			return fromNode(n)
		}
		if s.overOf != nil { //bug:kept-back
			s.tell() // may make a parent ready
			s.settle(true)
			continue
		}
		if s.looks != s.rt.pool.Looks() {
			s.shrink()
		}
		n, closed := s.Hunt()
		if n != nil && s.probe != nil {
			s.probe.late() // time has passed since the last task
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
				s.probe.queued(t)
			}
			s.Next = n
			continue
		}
		s.ready(t)
	}
	s.recycle()
}

// ready queues a task that may start or be resumed.
func (s *slot) ready(t *Task) {
	if s.probe != nil {
		s.probe.queued(t)
	}
	s.Ready(&t.node, t.prio())
}

// prio is the priority of t. Few tasks have one, and of others it is in a line that is not looked at.
func (t *Task) prio() int32 {
	if t.node.Flags&flagPriority == 0 {
		return 0
	}
	return t.priority
}

// refill gets free tasks from the runtime, or makes some.
func (s *slot) refill() {
	if s.free == nil {
		s.free = make([]*chain.Node, 0, freeMax)
	}
	if s.free = s.rt.pool.Get(s.free); len(s.free) > 0 {
		return
	}
	for range fresh {
		t := new(Task)
		t.node.Flags = flagLeaf
		s.free = append(s.free, &t.node)
	}
}

// shrink gives up memory that the slot has got for many tasks. It is for the holder, or for who has the slot in
// the list of parked ones and its lock.
func (s *slot) shrink() {
	s.looks = s.rt.pool.Looks()
	s.Slot.Shrink()
	s.flow.Shrink()
}

// spill gives a batch of free tasks, the coldest, to the runtime.
func (s *slot) spill() {
	s.rt.pool.Put(s.free[:pool.Batch])
	for i := pool.Batch; i < len(s.free); i++ { // not copy: see pool
		s.free[i-pool.Batch], s.free[i] = s.free[i], nil
	}
	s.free = s.free[:len(s.free)-pool.Batch]
}

// A task with Commutative accesses has one more thing to wait for when nothing else holds it back: it takes all its objects
// together. So it does that after its accesses are satisfied and after OnReady and the events of that, and before it is
// queued; priorities and slots see only tasks that have their objects.

// admit reports whether t, which has become ready, may be queued or run by rt. If not, t waits for its objects, and
// comes out of the Flow of whoever gives back the last of them; or it is of another runtime, which has it now. It is
// not the caller's any more then. A task whose OnReady is still to be called is queued for that.
func (t *Task) admit(f *chain.Flow, rt *Runtime) bool {
	return !t.node.Commutes() || t.admitSlowly(f, rt)
}

func (t *Task) admitSlowly(f *chain.Flow, rt *Runtime) bool {
	switch {
	case t.node.Flags&flagOnReady != 0:
		return true
	case t.node.Exclusive():
		if rt := t.run.rt; rt.probe != nil {
			rt.probe.takes(t, true)
		}
		ok := t.node.Acquire(f) // else t may be somebody else's
		if ok && t.run.rt.probe != nil {
			t.run.rt.probe.takes(t, false)
		}
		return ok
	case t.run.rt != rt: // who had the object is not of t's runtime
		t.run.rt.readyOff(t)
		return false
	}
	return true
}

// heldByLoop returns accs for a child of t, a recorded task: t itself has no accesses that would say what the loop's
// task holds.
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
