// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"weft/internal/event"
	"weft/internal/race"
	"weft/internal/xatomic"
)

// Sleep gives up the slot for at least d. It returns the error of the run, without waiting
// any longer, when that fails or is cancelled. An Unblock does not end it: BlockFor is for that.
// A timer of the Go runtime wakes the task; nothing polls.
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

// BlockFor is Block for at most d: it returns true if Unblock ended it, and false if the time did. An
// Unblock that comes after the time is remembered for the next call. With an error, which is that of
// the run, the first result says nothing.
func (t *Task) BlockFor(d time.Duration) (bool, error) {
	s := t.enter("BlockFor")
	t.node.Flags |= flagBlocks
	w := &t.block
	if w.CompareAndSwap(blockToken, blockNone) {
		return true, t.run.cause()
	}
	if d <= 0 {
		return false, t.run.cause()
	}
	x := waiting{op: opBlockFor, due: time.Now().Add(d)}
	t.prepare(x)
	if !t.run.addBlocked(t, w) {
		t.unprepare()
		return true, t.run.cause() // unblocked meanwhile, or the run is over
	}
	l := &limit{t: t}
	// The announcement has been made, so the timer finds t blocked however early it
	// is; its channel has room for the slot.
	timer := time.AfterFunc(d, l.expire)
	t.park(s, event.BlockedBlock)
	timer.Stop()
	race.Acquire(w)
	return !l.end(), t.run.cause()
}

// limit ends one BlockFor. The lock keeps a timer that is late from ending the next Block of the same
// task: once end has returned, expire does nothing, and before that the word is this BlockFor's.
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
