// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"weft/internal/chain"
	"weft/internal/event"
)

// A slot is the right to run tasks. Exactly one goroutine holds it at a time, and only
// that one touches the fields below "owned"; it hands them over with the slot,
// through a channel.
type slot struct {
	// Constant after construction.
	rt *Runtime
	id int

	// Owned by the holder.
	cur     current    // task whose body runs; the innermost one, if several are nested
	outer   *Task      // task whose Wait cur runs under, on the same stack; nil where cur is
	nested  int32      // bodies beneath cur on its stack
	runnext *Task      // successor of the task that just ended: runs next, past the queue
	flow    chain.Flow // work list for tokens; not in use while a body runs
	free    []*Task    // tasks to be used again, the warmest last
	overOf  *Task      // parent of overN children that are over and not counted yet
	overN   int64
	und     *undeferred // for the next undeferred task, or nil
	tick    uint32
	ran     uint32
	turn    uint32 // successors that ran next since the last look at what waits
	rng     rand.PCG
	hunting bool   // counted in rt.idle.hunting
	polling bool   // the holder is in functions of Poll
	looks   uint32 // rt.pool.looks when the slot was shrunk last
	probe   *probe // nil if nobody observes the runtime; constant

	_     pad
	g     atomic.Uintptr        // goroutine that holds the slot; written by it
	cell  *atomic.Pointer[slot] // place in holders; guarded by holders.mu
	deque deque
	sema  sleeper // of the holder when it is parked
}

// batch is how many free tasks move between a slot and the runtime at once (guess).
const batch = 64

// fresh is how many tasks a slot allocates when it has none. Each is by itself, so that one that is in use keeps no other
// from the collector. They fill cache lines: 320 bytes is a size of Go's allocator, and what has up to 512 bytes has no
// header (TestTasksAreAligned).
const fresh = 2 * batch

// freeMax is how many free tasks a slot has at most. With more than fresh, a creator whose tasks end on other slots does not take back what it has just given away.
const freeMax = fresh + batch

// overMax is how many children that are over a slot keeps back from their
// parent's counter. They are told anyway before the slot runs anything else than
// another child of the same parent, so nobody waits for them.
const overMax = 64

// injectLook is how many tasks a slot runs between looks at the injection queue
// while it has work of its own (as Go's scheduler does with its global queue).
const injectLook = 61

// yieldEvery is how many tasks a slot runs between two calls of Go's scheduler. A processor that is
// never idle gives the collector's workers no turn but by preemption, after 10 ms: the mark phase of a small heap,
// which needs a fraction of a millisecond, then lasts that long, and every pointer that is written meanwhile goes through the write
// barrier. Other goroutines of the program wait as long. (bench task/forkjoin: a third less; 128 to 1024 are alike.)
const yieldEvery = 256

// turnMax is how many times a slot goes on to a successor before it runs what has waited longest (guess). A chain
// can be endless: a recorded loop goes on by itself.
const turnMax = 64

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
			s.g.Store(0) // another goroutine may get this identity
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
	s.rt.holders.set(getg(), s)
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
	s.g.Store(0)
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
	t := s.pick()
	if s.hunting {
		s.found()
	}
	return t
}

func (s *slot) pick() *Task {
	rt := s.rt
	for {
		if rt.high.n.Load() > 0 {
			if t := rt.high.pop(); t != nil {
				if n := s.runnext; n != nil { // it shall not wait for t here
					s.runnext = nil
					s.deque.push(n)
					rt.idle.notify()
				}
				return s.from(t)
			}
		}
		if t := s.runnext; t != nil {
			s.runnext = nil
			return t
		}
		if s.tick++; s.tick%injectLook == 0 {
			if t := rt.inject.pop(); t != nil {
				return s.from(t)
			}
		}
		if t := s.deque.pop(); t != nil {
			return t
		}
		if s.overOf != nil { //bug:kept-back
			s.tell() // may make a parent ready
			s.settle(true)
			continue
		}
		t, closed := s.hunt()
		if t != nil || closed {
			return s.from(t)
		}
	}
}

// from returns t, which was found in a queue of others: time has passed since.
func (s *slot) from(t *Task) *Task {
	if s.probe != nil {
		s.probe.late()
	}
	return t
}

// settle queues what the flow made ready and takes in what it set free. With next, the
// first task that became ready runs next on this slot.
func (s *slot) settle(next bool) {
	if !s.flow.Empty() {
		s.settleAll(next)
	}
}

func (s *slot) settleAll(next bool) {
	if next && s.runnext == nil {
		if s.turn++; s.turn >= turnMax {
			s.turn = 0
			s.runnext = s.oldest()
		}
	}
	for n := s.flow.NextReady(); n != nil; n = s.flow.NextReady() {
		t := fromNode(n)
		if !t.admit(&s.flow, s.rt) {
			continue
		}
		if next && s.runnext == nil && t.node.Flags&flagPriority == 0 {
			if s.probe != nil {
				s.probe.queued(t)
			}
			s.runnext = t
			continue
		}
		s.ready(t)
	}
	s.recycle()
}

// oldest takes what has waited longest: from outside, else of the slot's own.
func (s *slot) oldest() *Task {
	if t := s.rt.inject.pop(); t != nil {
		return t
	}
	t, _ := s.deque.steal()
	if t != nil {
		s.deque.own++
	}
	return t
}

// ready queues a task that may start or be resumed.
func (s *slot) ready(t *Task) {
	rt := s.rt
	if s.probe != nil {
		s.probe.queued(t)
	}
	switch {
	case t.node.Flags&flagPriority == 0:
		s.deque.push(t)
	case t.priority > 0:
		rt.high.push(t)
	default:
		rt.low.push(t)
	}
	rt.idle.notify()
}

// refill gets free tasks from the runtime, or makes some.
func (s *slot) refill() {
	if s.free == nil {
		s.free = make([]*Task, 0, freeMax)
	}
	if s.free = s.rt.pool.get(s.free); len(s.free) > 0 {
		return
	}
	for range fresh {
		t := new(Task)
		t.node.Flags = flagLeaf
		s.free = append(s.free, t)
	}
}

// shrink gives up memory that the slot has got for many tasks. It is for the holder, or for who has the slot in
// the list of parked ones and its lock.
func (s *slot) shrink() {
	s.looks = s.rt.pool.looks.Load()
	s.deque.shrink()
	s.flow.Shrink()
}

// spill gives a batch of free tasks, the coldest, to the runtime.
func (s *slot) spill() {
	s.rt.pool.put(s.free[:batch])
	for i := batch; i < len(s.free); i++ { // not copy: see pool
		s.free[i-batch], s.free[i] = s.free[i], nil
	}
	s.free = s.free[:len(s.free)-batch]
}
