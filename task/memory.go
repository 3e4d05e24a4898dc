// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"
	"sync/atomic"

	"weft/internal/chain"
	"weft/task/internal/pool"
)

// earlyUnblocks says that a task of this program may have been unblocked before its Block. Until
// then, the end of a task leaves the word of Block alone, whose line few tasks touch. It is set
// before the token is left: where Unblock finds another word than blockNone, the task has called
// Block, and its memory is not used again, or a token is there already.
var earlyUnblocks atomic.Bool

// held counts one more event. The caller is t's body, or the slot that calls OnReady, or there is
// an event already: then the flag is only read.
func (t *Task) held() {
	if t.node.Flags&flagHeld == 0 {
		t.node.Flags |= flagHeld
	}
	t.holds.Add(1)
}

// flows are for goroutines without a slot.
var flows = sync.Pool{New: func() any { return new(chain.Flow) }}

// reset empties m for the next task.
func (m *more) reset() {
	if m.shares.p != nil {
		sharesOf(m).Clear()
	}
	if m.groups.p != nil {
		groupsOf(m).Clear()
	}
	*m = more{shares: m.shares, groups: m.groups}
}

// fresh is how many tasks a slot allocates when it has none. Each is by itself, so that one that is
// in use keeps no other from the collector. They fill cache lines: 320 bytes is a size of Go's
// allocator, and what has up to 512 bytes has no header (TestTasksAreAligned).
const fresh = 2 * pool.Batch

// freeMax is how many free tasks a slot has at most. With more than fresh, a creator whose tasks
// end on other slots does not take back what it has just given away.
const freeMax = fresh + pool.Batch

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

// shrink gives up memory that the slot has got for many tasks. It is for the holder, or for who has
// the slot in the list of parked ones and its lock.
func (s *slot) shrink() {
	s.looks = s.rt.pool.Checks()
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

// newTask returns a task for a child of t, with no references in it but these.
func (s *slot) newTask(t *Task, fn func(*Task) error) *Task {
	if fn == nil {
		panic("task: the body is nil")
	}
	n := len(s.free) - 1
	if n < 0 {
		s.refill()
		n = len(s.free) - 1
	}
	c := fromNode(s.free[n])
	s.free = s.free[:n]
	if n > 0 {
		prefetch(fromNode(s.free[n-1]))
	}
	r := t.run // before the stores, which are one batch of the write barrier then
	c.fn, c.run, c.node.Parent = fn, r, &t.node
	return c
}

// recycle takes in the tasks that nothing refers to any more.
func (s *slot) recycle() {
	for n := s.flow.NextFree(); n != nil; n = s.flow.NextFree() {
		s.takeBack(fromNode(n))
	}
}

// keep puts c on the free list.
func (s *slot) keep(c *Task) {
	if s.free = append(s.free, &c.node); len(s.free) == freeMax {
		s.spill()
	}
}

// keepOff is slot.keep for a caller without a slot.
func (rt *Runtime) keepOff(c *Task) { rt.pool.Put([]*chain.Node{&c.node}) }

// recycle is slot.recycle for a caller without a slot.
func (rt *Runtime) recycle(f *chain.Flow) {
	for n := f.NextFree(); n != nil; n = f.NextFree() {
		rt.keepOff(fromNode(n))
	}
}

// takeBack is keep for a task that ended elsewhere, most likely. It is not the next one to be used,
// and until then its lines are here.
func (s *slot) takeBack(c *Task) {
	prefetch(c)
	s.keep(c)
	if n := len(s.free); n > 1 {
		s.free[n-1], s.free[n-2] = s.free[n-2], &c.node
	}
}

// clear makes c, which is over, what newTask expects. Nothing of the user's is left in it, nor a
// way to other tasks: what still points to c, such as a deque in which it has been, keeps c's
// memory and no more.
func (c *Task) clear() {
	c.fn, c.run, c.node.Parent = nil, nil, nil
	if c.node.Flags != flagLeaf {
		c.clearRest()
	}
	if earlyUnblocks.Load() {
		c.block.Init(blockNone)
	}
}

// clearRest clears what Flags says may be set.
func (c *Task) clearRest() {
	if c.node.Flags&flagRare != 0 {
		c.label, c.pc, c.priority, c.cost, c.final, c.und = "", 0, 0, 0, false, nil
		if c.more != nil {
			c.more.reset()
		}
	}
	c.clearUsed()
	c.node.Flags = flagLeaf
}

// clearUsed clears what the body of c has used, except Flags.
func (c *Task) clearUsed() {
	if c.node.Flags&flagLeaf == 0 && c.spawned != 0 {
		// phase is not phaseWait: no body leaves Wait so
		c.spawned = 0
		c.count.Init(0) // it is zero where spawned is
	}
	if c.node.Flags&flagHeld != 0 {
		c.holds.Init(0)
	}
}

// clearForGood is clear for a task whose memory is not used again: somebody may call Unblock at
// this moment.
func (c *Task) clearForGood() {
	c.fn, c.run, c.node.Parent, c.label, c.und, c.more = nil, nil, nil, "", nil, nil
}

// rare returns t's more. Precondition: the caller spawns t, or is its body.
func (t *Task) rare() *more {
	t.node.Flags |= flagRare
	if t.more == nil {
		t.more = new(more)
	}
	return t.more
}
