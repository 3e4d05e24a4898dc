// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weft/internal/race"
	"weft/internal/waits"
	"weft/task/internal/say"
)

// ErrDeadlock is why a run ends whose tasks all wait while no goroutine of the program is left that could
// wake one. The error of the run wraps it, and says which tasks wait for what.
var ErrDeadlock = errors.New("task: deadlock: the tasks wait, and no goroutine is left that could wake one")

// deadlock notices that nothing in the process will ever act again while a runtime has runs. The timer of
// standstill looks. README.md, "Deadlocks", has the argument.
type deadlock struct {
	// Constant after construction.
	rt                  *Runtime
	period, warn, limit time.Duration
	stop                chan struct{} // closed by Close

	parks uint64        // of the last look. +checklocks:deadlocks
	pause time.Duration // until the next one, if nothing moves. +checklocks:deadlocks
	since time.Time     // parks is what it is. +checklocks:deadlocks
	said  bool          // since a slot was parked last. +checklocks:deadlocks
	over  bool          // likewise: all is said and done. +checklocks:deadlocks

	doubted bool // a doubt was said, once. +checklocks:deadlocks
}

// deadlocks is held by the one that looks, of all runtimes: two would disturb each other.
var deadlocks sync.Mutex

const (
	deadLimit = 10 * time.Second // what has lasted so long ends the runs (guess: few functions of timers come later)
	deadWarn  = 10               // and a part of it is said before
	deadDoubt = 3                // and three of these parts, of what is not certain
	deadPause = 16 * time.Second // the longest between two looks at a runtime that waits for others
)

func (d *deadlock) open(rt *Runtime, limit time.Duration) {
	if limit == 0 {
		limit = deadLimit
	}
	d.rt, d.limit, d.warn, d.period = rt, limit, limit/deadWarn, limit/(2*deadWarn)
	d.stop = make(chan struct{})
}

// look is called while all slots are parked. It returns when to look again; 0: when a slot is woken.
func (d *deadlock) look() (again time.Duration) {
	if d.rt.cfg.waitForEver || d.rt.life.idle() {
		return 0
	}
	if !deadlocks.TryLock() {
		return d.period
	}
	defer deadlocks.Unlock()
	if _, parks := d.rt.sched.Parks(); parks != d.parks {
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

// watch says that nothing will ever act again, and ends the runs, if that is so. It is a service meanwhile.
//
// +checklocks:deadlocks
func (d *deadlock) watch() {
	first, ok := waits.Take()
	if !ok || !first.Closed() || first.Outside {
		if ok && first.Foreign() > 0 {
			d.doubt()
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
		if !ok || !c.Same(first) || d.rt.life.idle() {
			return
		}
		lasts := time.Since(began)
		if lasts >= d.warn && !d.said {
			d.said = true
			then := "They have events that nobody ends (Hold), for which the run goes on waiting."
			if len(d.rt.waitingRuns()) > 0 {
				then = fmt.Sprintf("After %v the run fails. Events that nobody ends (Hold) keep it open even then.", d.limit)
			}
			d.rt.report(fmt.Sprintf("weft: for %v all tasks have waited, and no goroutine is left that could wake one: a deadlock, unless a timer's function or C code does. "+
				"%s\n%s\n", say.Short(lasts), then, strings.Join(d.waits(), "\n")))
		}
		if lasts >= d.limit {
			err := &waits.Ended{Cause: ErrDeadlock, Waits: d.waits()}
			for _, r := range d.rt.waitingRuns() {
				r.fail(err)
			}
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
func (d *deadlock) doubt() {
	lasts := time.Since(d.since)
	if d.doubted || lasts < deadDoubt*d.warn || !d.rt.locksInVain() {
		return
	}
	d.doubted = true
	d.rt.report(fmt.Sprintf("weft: for %v tasks have waited for a Mutex, and no slot has had anything to do: a deadlock, unless a goroutine of the program acts:\n%s\nthat may act: %s\n",
		say.Short(lasts), strings.Join(d.waits(), "\n"), strings.Join(waits.Acting(), "\n")))
}

// locksInVain reports whether tasks of this runtime wait for a Mutex that, as far as can be seen,
// nobody will let go of: its holder waits for one that it holds itself, over others maybe, or for
// tasks, none of which waits for anything but tasks. A holder in Blocking, say, comes back.
func (rt *Runtime) locksInVain() bool {
	all := map[*Task]waiting{} // of all runtimes, which may share a Mutex
	var lockers []*Task
	others := false // some wait for more than tasks
	eachParked(func(k *parked) {
		if k.t == nil {
			return
		}
		race.Acquire(&k.told)
		for t := k.t; t != nil; t = t.outer { // those beneath it on the stack cannot go on before it
			all[t] = k.what
		}
		switch k.what.op {
		case opLock:
			if k.t.run.rt == rt {
				lockers = append(lockers, k.t)
			}
		case opWait, opWaitOn, opChild, opWindow, opJoin:
		default:
			others = true
		}
	})
	for _, t := range lockers {
		x, seen := all[t]
		steps := 0
		for ; x.op == opLock && steps <= len(all); steps++ {
			x, seen = all[x.lock.heldBy()]
		}
		if steps > len(all) || seen && !others {
			return true
		}
	}
	return false
}

// heldEvents is what a run waits for that has no task which waits.
const heldEvents = "tasks have events that nobody has completed (Hold); Config.Watchdog would list them"

// waits says who waits for what: tasks of this runtime, and what else does.
func (d *deadlock) waits() []string {
	lines := d.rt.describeWaits()
	if len(lines) == 0 {
		lines = []string{heldEvents}
	}
	return append(lines, waits.Describe(d.rt.party)...)
}

// waitingRuns are the runs with tasks that wait without a slot. Where a run has none, it waits for events only, which
// nothing but their ends can complete.
func (rt *Runtime) waitingRuns() (all []*run) {
	seen := map[*run]bool{}
	eachParked(func(k *parked) {
		if k.t != nil && k.t.run.rt == rt && !seen[k.t.run] {
			seen[k.t.run] = true
			all = append(all, k.t.run)
		}
	})
	return all
}
