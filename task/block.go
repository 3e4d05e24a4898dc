// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"weft/internal/event"
	"weft/internal/race"
	"weft/internal/xatomic"
)

// Block gives up the slot until any goroutine calls Unblock for t. One early Unblock
// is remembered: the next Block returns at once. When the run fails or is cancelled, Block
// stops waiting and returns the run's error.
func (t *Task) Block() error {
	t.enter("Block")
	t.node.Flags |= flagBlocks
	return t.blockOn(&t.block, waiting{op: opBlock})
}

// Unblock ends t's Block, or the next Block if t is not blocked. Any goroutine may call it. Two
// Unblocks before the next Block are the same as one. The memory of a task that has called Block or
// BlockFor is not reused, so an Unblock that comes too late does no harm. A task that has not may
// be over, and t another task by then: a program that passes t to other goroutines must see to it
// that t calls Block, or outlasts the call of Unblock.
func (t *Task) Unblock() {
	if t.block.Load() == blockNone {
		earlyUnblocks.Store(true)
	}
	t.unblock(&t.block)
}

// Await calls start and returns when done has been called, by start or by any goroutine, at once or
// later; until then the slot is given up. It turns anything with a callback into a blocking call.
// Calls of done after the first do nothing. When the run fails or is cancelled, Await stops waiting
// and returns the run's error: what start has started may still be under way then.
func (t *Task) Await(start func(done func())) error {
	return t.await("Await", waiting{op: opAwait}, start)
}

// AwaitFor is Await with a description of what it waits for, as in [Task.HoldFor].
func (t *Task) AwaitFor(what any, start func(done func())) error {
	return t.await("AwaitFor", waiting{op: opAwait, what: what}, start)
}

// await is the method op, which waits for x.
func (t *Task) await(op string, x waiting, start func(done func())) error {
	t.enter(op)
	mustCall(op, "with", start != nil)
	w := new(xatomic.Uint32)
	start(func() { t.unblock(w) })
	return t.blockOn(w, x)
}

// blockOn waits for unblock of the same word.
func (t *Task) blockOn(w *xatomic.Uint32, x waiting) error {
	if w.CompareAndSwap(blockWoken, blockNone) {
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
			if w.CompareAndSwap(blockNone, blockWoken) {
				return
			}
		case blockWoken:
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
	mustCall("Blocking", "with", f != nil)
	t.prepare(waiting{op: opBlocking})
	t.addIdle(1)
	rt := t.run.rt
	in := rt.guests.Enter("Blocking", t)
	t.giveSlot(s, event.BlockedOutside)
	t.parker.publish(t, parkOutside)
	defer func() {
		rt.guests.Leave(in)
		t.node.Flags |= flagResuming
		rt.readyOutside(t)
		t.awaitSlot()
		t.addIdle(-1)
	}()
	f()
}

// Sleep gives up the slot for at least d. When the run fails or is cancelled, Sleep stops waiting
// and returns the run's error. An Unblock does not end it; use BlockFor for that. A timer of the Go
// runtime wakes the task; nothing polls.
func (t *Task) Sleep(d time.Duration) error {
	t.enter("Sleep")
	if d <= 0 {
		return t.run.cause()
	}
	w := new(xatomic.Uint32)
	timer := time.AfterFunc(d, func() { t.unblock(w) })
	defer timer.Stop()
	return t.blockOn(w, waiting{op: opSleep, due: time.Now().Add(d)})
}

// BlockFor is Block for at most d. It returns true if Unblock ended it, and false if the time did.
// An Unblock that comes after the time is remembered for the next call. The error is the run's; if
// it is not nil, the first result has no meaning.
func (t *Task) BlockFor(d time.Duration) (bool, error) {
	s := t.enter("BlockFor")
	t.node.Flags |= flagBlocks
	w := &t.block
	if w.CompareAndSwap(blockWoken, blockNone) {
		race.Acquire(w)
		return true, t.run.cause()
	}
	if d <= 0 {
		return false, t.run.cause()
	}
	t.prepare(waiting{op: opBlockFor, due: time.Now().Add(d)})
	if !t.run.addBlocked(t, w) {
		t.unprepare()
		race.Acquire(w)
		return true, t.run.cause() // unblocked meanwhile, or the run is over
	}
	l := &limit{t: t}
	// t has been announced, so even a timer that fires at once finds t blocked. The parker's
	// channel has room for the slot.
	timer := time.AfterFunc(d, l.expire)
	t.park(s, event.BlockedBlock)
	timer.Stop()
	race.Acquire(w)
	return !l.end(), t.run.cause()
}

// limit ends one BlockFor. The lock keeps a late timer from ending the next Block of the same task:
// once end has returned, expire does nothing. Before that, the word is used by this BlockFor only.
type limit struct {
	t       *Task
	mu      xatomic.Mutex
	over    bool // BlockFor has returned. +checklocks:mu
	expired bool // the time has ended it. +checklocks:mu
}

func (l *limit) expire() {
	l.mu.Lock()
	won := !l.over && l.t.block.CompareAndSwap(blocked, blockNone)
	l.expired = won
	l.mu.Unlock()
	if won {
		l.t.run.dropBlocked(l.t)
		l.t.run.rt.resume(l.t)
	}
}

// end reports whether the time ended the BlockFor.
func (l *limit) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.expired
}
