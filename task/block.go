// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync/atomic"

	"weft/internal/event"
	"weft/internal/race"
	"weft/internal/xatomic"
)

// Values of a word that somebody may block on.
const (
	blockNone  = iota
	blockToken // the wake-up came before the wait
	blocked
)

// Block gives up the slot until Unblock is called for t, by anybody. One Unblock
// that comes early is remembered: the next Block returns at once. Block returns the
// error of the run, without waiting any longer, when that fails or is cancelled.
func (t *Task) Block() error {
	t.enter("Block")
	t.node.Flags |= flagBlocks
	return t.blockOn(&t.block, waiting{op: opBlock})
}

// Unblock ends t's Block, or the next one if it is not blocked. Any goroutine may
// call it. A second Unblock before the next Block is the same as one.
// A task that has called Block or BlockFor keeps its memory to itself, so a
// call that comes too late does no harm. One that has not may be over, and t another task by then: who
// hands t out sees to it that t calls Block, or outlasts the call.
func (t *Task) Unblock() {
	if t.block.Load() == blockNone {
		earlyUnblocks.Store(true)
	}
	t.unblock(&t.block)
}

// earlyUnblocks says that a task of this program may have been unblocked before its Block. Until
// then, the end of a task leaves the word of Block alone, whose line few tasks touch. It is set
// before the token is left: where Unblock finds another word than blockNone, the task has called
// Block, and its memory is not used again, or a token is there already.
var earlyUnblocks atomic.Bool

// Await calls start and returns when start, or somebody whom it told, has called done; until
// then the slot is given up. It turns anything with a callback into a blocking
// call. done may be called by any goroutine, at once or later; calls after the first do
// nothing. Await returns the error of the run, without waiting any longer, when that fails
// or is cancelled: what was started may still be under way then.
func (t *Task) Await(start func(done func())) error {
	t.enter("Await")
	mustCall("Await", start != nil)
	return t.await(waiting{op: opAwait}, start)
}

// AwaitFor is Await for something that says what it is, as with [Task.HoldFor].
func (t *Task) AwaitFor(what any, start func(done func())) error {
	t.enter("AwaitFor")
	mustCall("AwaitFor", start != nil)
	return t.await(waiting{op: opAwait, what: what}, start)
}

func (t *Task) await(x waiting, start func(done func())) error {
	w := new(xatomic.Uint32)
	start(func() { t.unblock(w) })
	return t.blockOn(w, x)
}

// blockOn waits for unblock of the same word.
func (t *Task) blockOn(w *xatomic.Uint32, x waiting) error {
	if w.CompareAndSwap(blockToken, blockNone) {
		race.Acquire(w)
		return t.run.cause()
	}
	t.prepare(x)
	if t.run.addBlocked(t, w) {
		t.park(t.slot, event.BlockedBlock)
	} else {
		t.unprepare()
	}
	race.Acquire(w)
	return t.run.cause()
}

func (t *Task) unblock(w *xatomic.Uint32) {
	race.Release(w)
	for {
		switch w.Load() {
		case blockNone:
			if w.CompareAndSwap(blockNone, blockToken) {
				return
			}
		case blockToken:
			return
		case blocked:
			if w.CompareAndSwap(blocked, blockNone) { //bug:end-once
				t.run.dropBlocked(t)
				t.run.rt.resume(t)
				return
			}
		}
	}
}

// Blocking runs f without a slot, so that other tasks run while f blocks its
// goroutine in a channel, a lock or a system call. In f the task's methods may not be used,
// except those that any goroutine may call. A panic of f passes on.
func (t *Task) Blocking(f func()) {
	s := t.enter("Blocking")
	mustCall("Blocking", f != nil)
	t.prepare(waiting{op: opBlocking})
	t.addIdle(1)
	rt := t.run.rt
	in := rt.guests.enter("Blocking", t)
	t.giveSlot(s, event.BlockedOutside)
	t.parker.leaves(t)
	defer func() {
		rt.guests.leave(in)
		t.node.Flags |= flagResuming
		rt.readyOff(t)
		t.awaitSlot()
		t.addIdle(-1)
	}()
	f()
}

// mustCall panics if what the method op is to call is nil, before anything has changed.
func mustCall(op string, ok bool) {
	if !ok {
		panic("task: " + op + " with a nil function")
	}
}
