// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package stuck detects that a runtime of tasks does not go on: the bodies on all slots block while
// tasks are ready (a standstill), or all tasks wait while no goroutine is left that could wake one
// (a deadlock). README.md has the states and the arguments.
package stuck

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/waits"
	"weft/task/internal/say"
	"weft/task/internal/sched"
)

// A Host is the runtime that is watched. All its methods may be called at any time, by the
// goroutine of a timer.
type Host interface {
	// Task returns the task whose body is on a slot; nil if there is none. Describe describes a
	// task. The result is right only if the task is still on its slot afterwards; else it may mix
	// two tasks. Seen is called after Describe, for the race detector.
	Task(slot int) any
	Describe(task any) Body
	Seen(slot int, task any)

	// Idle reports whether no run is under way. Waiting reports whether some run has tasks that
	// wait, and Fail ends these runs.
	Idle() bool
	Waiting() bool
	Fail(error)

	// Waits describes what tasks wait for. InVain reports whether some wait for a lock that no task
	// will unlock, as far as can be seen.
	Waits() []string
	InVain() bool

	// Report writes a report for a person.
	Report(text string)
}

// A Body describes a body on a slot in a report.
type Body struct {
	Name string // of the task
	Func string // the name of its function
	Addr string // the address of the task, as a stack has it
}

// A Config configures a Watch.
type Config struct {
	Slots int
	// how long a standstill lasts before it is reported, each time; zero: standLimit, and only once
	Watchdog time.Duration
	Deadlock time.Duration // how long a deadlock lasts before the runs end; zero: deadLimit
	Patient  bool          // deadlocks are not detected
	Calls    Code          // of the function that calls bodies
}

// A Watch detects standstills and deadlocks of one runtime. A timer makes the checks, without a
// goroutine. While all slots are parked, it checks for deadlocks only.
type Watch struct {
	// Constant after Open.
	host   Host
	sched  *sched.Scheduler
	cfg    Config
	period time.Duration // between two checks
	limit  time.Duration // how long nothing must move

	armed atomic.Bool // the timer runs
	dead  deadlock

	mu        sync.Mutex
	timer     *time.Timer   // +checklocks:mu
	closed    bool          // +checklocks:mu
	last, now []view        // of the last check, and memory for the next. +checklocks:mu
	queued    [3]int64      // the lengths of the common queues at the last check. +checklocks:mu
	used      time.Duration // processor time of the process at the last check. +checklocks:mu
	since     time.Time     // nothing has moved since then; zero: something has. +checklocks:mu
	proofs    int           // checks in a row that have found all bodies blocked. +checklocks:mu
	reported  bool          // this standstill. +checklocks:mu
	// a standstill was reported; without a watchdog, no other is. +checklocks:mu
	once bool
}

// view is what a check reads of a slot. It changes when the slot takes another task.
type view struct {
	sched.View
	task any
}

// deadlock detects that nothing in the process will ever act again while a runtime has runs. The
// timer of Watch makes the checks.
type deadlock struct {
	// Constant after construction.
	w                   *Watch
	period, warn, limit time.Duration
	stop                chan struct{} // closed by Close

	// how many times slots had parked at the last check. +checklocks:deadlocks
	parks    uint64
	pause    time.Duration // until the next check, if nothing moves. +checklocks:deadlocks
	since    time.Time     // parks has not changed since then. +checklocks:deadlocks
	reported bool          // since a slot last parked. +checklocks:deadlocks
	over     bool          // the runs have failed, since a slot last parked. +checklocks:deadlocks

	suspected bool // a suspicion was reported. +checklocks:deadlocks
}

// view reads the slots and queues. It reports whether each slot runs the body that it ran at the
// last check, and no task was queued or taken.
//
// +checklocks:w.mu
func (w *Watch) view() (same bool) {
	w.now = w.now[:0]
	same = len(w.last) == w.cfg.Slots
	for i := range w.cfg.Slots {
		v := w.slot(i)
		// v.task is not nil: the slot neither is parked nor hunts
		same = same && v == w.last[i] && v.task != nil
		w.now = append(w.now, v)
	}
	queued := w.sched.Lengths()
	same = same && queued == w.queued
	w.last, w.now, w.queued = w.now, w.last, queued
	return same
}

func (w *Watch) slot(i int) view { return view{w.sched.View(i), w.host.Task(i)} }

// ErrDeadlock ends a run whose tasks all wait while no goroutine of the program is left that could
// wake one.
var ErrDeadlock = errors.New("task: deadlock: the tasks wait, and no goroutine is left that could wake one")

// deadlocks is held during a check for deadlocks: checks of two runtimes would disturb each other.
var deadlocks sync.Mutex

const (
	// how long a deadlock lasts before the runs fail (guess: few functions of timers come later)
	deadLimit     = 10 * time.Second
	deadWarn      = 10               // it is reported after this part of the limit
	deadSuspicion = 3                // and a suspicion after so many of these parts
	deadPause     = 16 * time.Second // the longest pause between two checks
)

func (d *deadlock) open(w *Watch, limit time.Duration) {
	limit = cmp.Or(limit, deadLimit)
	d.w, d.limit, d.warn, d.period = w, limit, limit/deadWarn, limit/(2*deadWarn)
	d.stop = make(chan struct{})
}

// check is called while all slots are parked. It returns the time until the next check; 0: not
// before a slot is woken.
func (d *deadlock) check() (again time.Duration) {
	if d.w.cfg.Patient || d.w.host.Idle() {
		return 0
	}
	if !deadlocks.TryLock() {
		return d.period
	}
	defer deadlocks.Unlock()
	if _, parks := d.w.sched.Parks(); parks != d.parks {
		d.parks, d.since = parks, time.Now()
		d.pause = d.period // so occasional waits of a millisecond need no census
		d.reported, d.over = false, false
		return d.pause
	}
	if waits.Service(d.watch)(); d.over {
		return 0
	}
	d.pause = min(2*d.pause, deadPause)
	return d.pause
}

// watch takes a census. If it is closed, watch repeats it, reports the deadlock, and ends the runs.
// The caller is a service meanwhile.
//
// +checklocks:deadlocks
func (d *deadlock) watch() {
	first, ok := waits.Take()
	if !ok || !first.Closed() || first.Outside {
		if ok && first.Foreign() > 0 {
			d.suspect()
		}
		return
	}
	tick := time.NewTicker(d.period)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-d.stop:
			return
		case <-tick.C:
		}
		c, ok := waits.Take()
		if !ok || !c.Same(first) || d.w.host.Idle() {
			return
		}
		lasts := time.Since(began)
		if lasts >= d.warn && !d.reported {
			d.reported = true
			then := "They have events that no code ends (Hold), and the run keeps waiting for these."
			if d.w.host.Waiting() {
				then = fmt.Sprintf("After %v the run fails. Events that no code ends (Hold) keep it open even then.", d.limit)
			}
			d.w.host.Report(fmt.Sprintf("weft: for %v all tasks have waited, and no goroutine is left that could wake one: a deadlock, unless a timer's function or C code does. "+
				"%s\n%s\n", say.Short(lasts), then, strings.Join(d.w.host.Waits(), "\n")))
		}
		if lasts >= d.limit {
			d.w.host.Fail(&waits.Ended{Cause: ErrDeadlock, Waits: d.w.host.Waits()})
			d.over = true
			return
		}
	}
}

// suspect reports, once, that tasks have waited long for a Mutex while no slot had anything to do,
// and that none of the tasks that they wait for is seen to continue by itself. It is no certain
// deadlock, since goroutines of the program may still act. Other waits are not reported: in a
// server, tasks wait for work that such a goroutine brings.
//
// +checklocks:deadlocks
func (d *deadlock) suspect() {
	lasts := time.Since(d.since)
	if d.suspected || lasts < deadSuspicion*d.warn || !d.w.host.InVain() {
		return
	}
	d.suspected = true
	d.w.host.Report(fmt.Sprintf("weft: for %v tasks have waited for a Mutex, and no slot has had anything to do: a deadlock, unless a goroutine of the program acts:\n%s\nthat may act: %s\n",
		say.Short(lasts), strings.Join(d.w.host.Waits(), "\n"), strings.Join(waits.Acting(), "\n")))
}
