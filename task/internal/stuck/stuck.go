// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package stuck notices that a runtime of tasks does not go on: that the bodies on all slots block
// while tasks are ready (a standstill), and that all tasks wait while no goroutine is left that
// could wake one (a deadlock). README.md has the arguments.
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
	// Task returns the task whose body is on a slot; nil if there is none. Describe says what it
	// is: while it is on the slot that is true, and else it may be of two tasks. Seen tells that it
	// has been described.
	Task(slot int) any
	Describe(task any) Body
	Seen(slot int, task any)

	// Idle reports whether no run is under way, and Waiting whether some run has tasks that wait.
	// Fail ends these runs.
	Idle() bool
	Waiting() bool
	Fail(error)

	// Waits says what tasks wait for. InVain reports whether some wait for a lock that, as far as
	// can be seen, no task will let go of.
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
	Slots int
	// the limit of a standstill, which is reported each time; zero: standLimit, and once
	Watchdog time.Duration
	Deadlock time.Duration // how long a deadlock lasts before the runs end; zero: deadLimit
	Patient  bool          // the runs never end for a deadlock
	Calls    Code          // of the function that calls bodies
}

// A Watch notices a standstill and a deadlock. A timer looks; there is no goroutine, and while all
// slots are parked the timer runs for deadlocks only.
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

// deadlock notices that nothing in the process will ever act again while a runtime has runs. The
// timer of Watch looks.
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

	suspected bool // a doubt was said, once. +checklocks:deadlocks
}

// view looks at the slots and queues, and reports whether each slot runs the body that it ran at
// the last look, and no task was queued or taken.
//
// +checklocks:w.mu
func (w *Watch) view() (same bool) {
	w.now = w.now[:0]
	same = len(w.last) == w.cfg.Slots
	for i := range w.cfg.Slots {
		v := w.slot(i)
		// so the slot is neither parked nor looks for work
		same = same && v == w.last[i] && v.task != nil
		w.now = append(w.now, v)
	}
	queued := w.sched.Lengths()
	same = same && queued == w.queued
	w.last, w.now, w.queued = w.now, w.last, queued
	return same
}

func (w *Watch) slot(i int) view { return view{w.sched.View(i), w.host.Task(i)} }

// ErrDeadlock is why a run ends whose tasks all wait while no goroutine of the program is left that
// could wake one.
var ErrDeadlock = errors.New("task: deadlock: the tasks wait, and no goroutine is left that could wake one")

// deadlocks is held by the one that looks, of all runtimes: two would disturb each other.
var deadlocks sync.Mutex

const (
	// what has lasted so long ends the runs (guess: few functions of timers come later)
	deadLimit     = 10 * time.Second
	deadWarn      = 10               // and a part of it is said before
	deadSuspicion = 3                // and three of these parts, of what is not certain
	// the longest between two looks at a runtime that waits for others
	deadPause     = 16 * time.Second
)

func (d *deadlock) open(w *Watch, limit time.Duration) {
	limit = cmp.Or(limit, deadLimit)
	d.w, d.limit, d.warn, d.period = w, limit, limit/deadWarn, limit/(2*deadWarn)
	d.stop = make(chan struct{})
}

// look is called while all slots are parked. It returns when to look again; 0: when a slot is
// woken.
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
		d.pause = d.period // as long a rest as a wait of a millisecond now and then needs
		d.said, d.over = false, false
		return d.pause
	}
	if waits.Service(d.watch)(); d.over {
		return 0
	}
	d.pause = min(2*d.pause, deadPause)
	return d.pause
}

// watch says that nothing will ever act again, and ends the runs, if that is so. It is a service
// meanwhile.
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
		if lasts >= d.warn && !d.said {
			d.said = true
			then := "They have events that nobody ends (Hold), for which the run goes on waiting."
			if d.w.host.Waiting() {
				then = fmt.Sprintf("After %v the run fails. Events that nobody ends (Hold) keep it open even then.", d.limit)
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

// doubt says, once, that tasks have waited for a Mutex for long while no slot had anything to do,
// and that none of those they wait for is seen to go on by itself, though goroutines of the program
// may still act. Of other waits nothing is said: in a server they wait for what such a goroutine
// brings.
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
