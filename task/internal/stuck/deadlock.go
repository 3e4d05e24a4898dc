// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stuck

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weft/internal/waits"
	"weft/task/internal/say"
)

// ErrDeadlock is why a run ends whose tasks all wait while no goroutine of the program is left that could
// wake one.
var ErrDeadlock = errors.New("task: deadlock: the tasks wait, and no goroutine is left that could wake one")

// deadlocks is held by the one that looks, of all runtimes: two would disturb each other.
var deadlocks sync.Mutex

const (
	deadLimit = 10 * time.Second // what has lasted so long ends the runs (guess: few functions of timers come later)
	deadWarn  = 10               // and a part of it is said before
	deadDoubt = 3                // and three of these parts, of what is not certain
	deadPause = 16 * time.Second // the longest between two looks at a runtime that waits for others
)

func (d *deadlock) open(w *Watch, limit time.Duration) {
	if limit == 0 {
		limit = deadLimit
	}
	d.w, d.limit, d.warn, d.period = w, limit, limit/deadWarn, limit/(2*deadWarn)
	d.stop = make(chan struct{})
}

// look is called while all slots are parked. It returns when to look again; 0: when a slot is woken.
func (d *deadlock) look() (again time.Duration) {
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
func (d *deadlock) doubt() {
	lasts := time.Since(d.since)
	if d.doubted || lasts < deadDoubt*d.warn || !d.w.host.InVain() {
		return
	}
	d.doubted = true
	d.w.host.Report(fmt.Sprintf("weft: for %v tasks have waited for a Mutex, and no slot has had anything to do: a deadlock, unless a goroutine of the program acts:\n%s\nthat may act: %s\n",
		say.Short(lasts), strings.Join(d.w.host.Waits(), "\n"), strings.Join(waits.Acting(), "\n")))
}
