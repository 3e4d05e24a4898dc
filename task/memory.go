// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"
	"sync/atomic"

	"weft/internal/chain"
	"weft/task/internal/pool"
)

// earlyUnblocks says that a task of this program may have been unblocked before its Block. While it
// is false, the end of a task does not touch the word of Block, whose cache line few tasks touch.
// It is set before the word becomes blockWoken. If Unblock finds another value than blockNone,
// either the task has called Block, and its memory is not reused, or the word is blockWoken
// already.
var earlyUnblocks atomic.Bool

// addEvent counts one more event. Precondition: the caller is t's body or the slot that calls
// OnReady, or an event is pending; in the last case the flag is only read.
func (t *Task) addEvent() {
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

// fresh is how many tasks a slot allocates when it has none. Each is a separate allocation, so that
// a task in use does not keep others from the collector. Tasks fill whole cache lines: 320 bytes is
// a size class of Go's allocator, and objects of up to 512 bytes have no header
// (TestTasksAreAligned).
const fresh = 2 * pool.Batch

// freeMax is how many free tasks a slot has at most. It is larger than fresh, so that a creator
// whose tasks end on other slots does not take back the batch that it has just given to the pool.
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

// shrink frees memory that the slot needed for many tasks. The caller is the holder, or has the
// lock of the list of parked slots while the slot is in it.
func (s *slot) shrink() {
	s.checks = s.rt.pool.Checks()
	s.Slot.Shrink()
	s.flow.Shrink()
}

// spill gives the batch of free tasks that were used least recently to the runtime's pool.
func (s *slot) spill() {
	s.rt.pool.Put(s.free[:pool.Batch])
	for i := pool.Batch; i < len(s.free); i++ { // not copy: see pool
		s.free[i-pool.Batch], s.free[i] = s.free[i], nil
	}
	s.free = s.free[:len(s.free)-pool.Batch]
}

// newTask returns a task for a child of t. Only fn, run and Parent are set in it.
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

// recycle puts the tasks that the flow has freed on the free list.
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
func (rt *Runtime) keepOutside(c *Task) { rt.pool.Put([]*chain.Node{&c.node}) }

// recycle is slot.recycle for a caller without a slot.
func (rt *Runtime) recycle(f *chain.Flow) {
	for n := f.NextFree(); n != nil; n = f.NextFree() {
		rt.keepOutside(fromNode(n))
	}
}

// takeBack is keep for a task that probably ended on another core. It puts the task below the top
// of the free list, so that its prefetch completes before the task is reused.
func (s *slot) takeBack(c *Task) {
	prefetch(c)
	s.keep(c)
	if n := len(s.free); n > 1 {
		s.free[n-1], s.free[n-2] = s.free[n-2], &c.node
	}
}

// clear resets c, which is over, to the state that newTask expects. It drops all references to the
// user's data and to other tasks. So a stale pointer to c, such as in an old cell of a deque, keeps
// only c's memory alive.
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
		c.clearAttrs()
		c.pc, c.und = 0, nil
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
		// phase is not phaseWait: Wait resets it before it returns
		c.spawned = 0
		c.count.Init(0) // it is zero where spawned is
	}
	if c.node.Flags&flagHeld != 0 {
		c.holds.Init(0)
	}
}

// clearForGood is clear for a task whose memory is not reused: another goroutine may be in Unblock.
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
