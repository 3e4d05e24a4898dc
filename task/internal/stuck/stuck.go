// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package stuck notices that a runtime of tasks does not go on: that the bodies on all slots block while
// tasks are ready (a standstill), and that all tasks wait while no goroutine is left that could wake one
// (a deadlock). README.md has the arguments.
package stuck

import (
	"sync"
	"sync/atomic"
	"time"

	"weft/task/internal/sched"
)

// A Host is the runtime that is watched. All its methods may be called at any time, by the goroutine of a
// timer.
type Host interface {
	// Task returns the task whose body is on a slot; nil if there is none. Describe says what it is: while
	// it is on the slot that is true, and else it may be of two tasks. Seen tells that it has been described.
	Task(slot int) any
	Describe(task any) Body
	Seen(slot int, task any)

	// Idle reports whether no run is under way, and Waiting whether some run has tasks that wait. Fail
	// ends these runs.
	Idle() bool
	Waiting() bool
	Fail(error)

	// Waits says what tasks wait for. InVain reports whether some wait for a lock that, as far as can
	// be seen, no task will let go of.
	Waits() []string
	InVain() bool

	// Report writes what a person must hear.
	Report(text string)
}

// A Body is what a report says of a body on a slot.
type Body struct {
	Name string // of the task
	Func string // the name of its function
	Addr string // its address, as a stack has it
}

// A Config says what is watched.
type Config struct {
	Slots    int
	Watchdog time.Duration // the limit of a standstill, which is reported each time; zero: standLimit, and once
	Deadlock time.Duration // how long a deadlock lasts before the runs end; zero: deadLimit
	Patient  bool          // the runs never end for a deadlock
	Calls    Code          // of the function that calls bodies
}

// A Watch notices a standstill and a deadlock. A timer looks; there is no goroutine, and while all slots
// are parked the timer runs for deadlocks only.
type Watch struct {
	// Constant after Open.
	host   Host
	sched  *sched.Scheduler
	cfg    Config
	period time.Duration // between two looks
	limit  time.Duration // how long nothing has to move

	armed atomic.Bool // the timer runs
	dead  deadlock

	mu        sync.Mutex
	timer     *time.Timer   // +checklocks:mu
	closed    bool          // +checklocks:mu
	last, now []view        // of the last look, and room for the next. +checklocks:mu
	queued    [3]int64      // likewise: the lengths of the common queues. +checklocks:mu
	used      time.Duration // likewise: processor time of the process. +checklocks:mu
	since     time.Time     // nothing has moved; zero: something has. +checklocks:mu
	proofs    int           // looks in a row that have found all bodies blocked. +checklocks:mu
	said      bool          // this standstill is reported. +checklocks:mu
	once      bool          // one is, by a runtime without a watchdog. +checklocks:mu
}

// view is what a look sees of a slot. It changes when the slot takes another task.
type view struct {
	sched.View
	task any
}

// deadlock notices that nothing in the process will ever act again while a runtime has runs. The timer of
// Watch looks.
type deadlock struct {
	// Constant after construction.
	w                   *Watch
	period, warn, limit time.Duration
	stop                chan struct{} // closed by Close

	parks uint64        // of the last look. +checklocks:deadlocks
	pause time.Duration // until the next one, if nothing moves. +checklocks:deadlocks
	since time.Time     // parks is what it is. +checklocks:deadlocks
	said  bool          // since a slot was parked last. +checklocks:deadlocks
	over  bool          // likewise: all is said and done. +checklocks:deadlocks

	doubted bool // a doubt was said, once. +checklocks:deadlocks
}

// view looks at the slots and queues, and reports whether each slot runs the body that it ran at the
// last look, and no task was queued or taken.
//
// +checklocks:w.mu
func (w *Watch) view() (same bool) {
	w.now = w.now[:0]
	same = len(w.last) == w.cfg.Slots
	for i := range w.cfg.Slots {
		v := w.slot(i)
		same = same && v == w.last[i] && v.task != nil // so the slot is neither parked nor looks for work
		w.now = append(w.now, v)
	}
	queued := w.sched.Lengths()
	same = same && queued == w.queued
	w.last, w.now, w.queued = w.now, w.last, queued
	return same
}

func (w *Watch) slot(i int) view { return view{w.sched.View(i), w.host.Task(i)} }
