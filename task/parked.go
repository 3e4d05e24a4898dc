// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/internal/race"
	"weft/internal/waits"
	"weft/internal/xatomic"
	"weft/task/internal/say"
)

// parkedTasks counts the tasks of all runtimes that wait without a slot.
var parkedTasks = waits.Party{Asleep: func() (asleep, timed int, version uint64) {
	eachParked(func(k *parked) {
		version += k.changes
		switch {
		case k.t == nil:
		case k.state == parkAsleep:
			asleep++
		case k.state == parkTimed:
			timed++
		}
	})
	return asleep, timed, version
}}

func init() { waits.Join(&parkedTasks) }

// Bounds of what is printed about a runtime's tasks when a run ends.
const (
	maxWaits  = 16  // tasks
	maxDumped = 100 // lines, if there is a watchdog
)

// describeWaits says which tasks wait for what.
func (rt *Runtime) describeWaits() []string {
	if rt.cfg.Watchdog > 0 {
		lines := strings.Split(strings.TrimSuffix(rt.dump(), "\n"), "\n")
		if len(lines) > maxDumped {
			lines = append(lines[:maxDumped], "and more")
		}
		return lines
	}
	return describeParked(func(k *parked) bool { return k.t.run.rt == rt })
}

// describeParked says what the tasks that wait without a slot, and for which of is true, wait for.
func describeParked(of func(*parked) bool) (lines []string) {
	n := 0
	eachParked(func(k *parked) {
		if k.t == nil || !of(k) {
			return
		}
		race.Acquire(&k.clock) // in lint mode: after the body's writes to what is printed here
		if n++; n > maxWaits {
			return
		}
		line := say.Task(k.t.node.Parent == nil, k.t.label, k.t.site()) + " waits in " + k.what.op
		if k.what.what != nil {
			line += fmt.Sprintf(", for %v", k.what.what)
		}
		lines = append(lines, line)
	})
	if n > maxWaits {
		lines = append(lines, fmt.Sprintf("and %d more tasks wait", n-maxWaits))
	}
	return lines
}

// heldEvents says what a run waits for if none of its tasks waits.
const heldEvents = "tasks have events that have not ended (Hold); Config.Watchdog would list them"

// waitingRuns returns the runs that have tasks which wait without a slot. A run that has none waits
// for events only, and only the ends of these can complete it.
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

// overdueAfter is how long a run may go on after it has failed before its failure is reported
// (guess). Most runs return the error by then; a program that prints the error should not print it
// twice. holdersAfter is how long it takes until the report says what the run waits for (guess:
// most bodies that check their context, or compute, are over by then).
const (
	overdueAfter = time.Second
	holdersAfter = 3 * time.Second
)

// start is called once, when the run ends early. It reports neither the end of the context, which
// the caller knows, nor a deadlock, which has been reported.
func (l *overdueReport) start(r *run, err error) {
	if xatomic.Driven() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var of *Error
	switch {
	case l.ended:
	case errors.As(err, &of):
		l.timer = time.AfterFunc(overdueAfter, func() { l.reportFailure(r, err) })
	case errors.Is(err, ErrDeadlock):
	default:
		l.timer = time.AfterFunc(holdersAfter, func() { l.reportHolders(r, err) })
	}
}

func (l *overdueReport) reportFailure(r *run, err error) {
	l.mu.Lock()
	defer l.mu.Unlock() // a run that ends now waits in stop
	if !l.ended {
		_, _ = fmt.Fprintf(r.rt.cfg.Reports, "weft: a run has failed but is not over: some of its tasks still run, or wait for something that has not come: %v\n", err)
		l.timer = time.AfterFunc(holdersAfter, func() { l.reportHolders(r, err) })
	}
}

// reportHolders reports once what the run waits for, as soon as no body computes.
func (l *overdueReport) reportHolders(r *run, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if !r.rt.holderChecks.allow() {
		l.timer.Reset(holdersAfter)
		return
	}
	lines, computes := r.holders()
	if len(lines) == 0 {
		if l.pause = max(2*l.pause, 2*holdersAfter); computes {
			l.timer.Reset(l.pause)
		}
		return
	}
	why, _, _ := strings.Cut(plain(err).Error(), "\n")
	_, _ = fmt.Fprintf(r.rt.cfg.Reports, "weft: a run has ended early but is not over (%s). Bodies are not interrupted; the run waits for:\n  %s\n",
		why, strings.Join(lines, "\n  "))
}

// stop is called when the run is over.
func (l *overdueReport) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// allow reports whether a run may check now what it waits for: the last check of any run of this
// runtime was at least holdersAfter ago. A check stops the program for a moment, and there may be
// many runs.
func (l *checkLimiter) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.at) < holdersAfter {
		return false
	}
	l.at = now
	return true
}

// holders returns what r, which has ended early, still waits for: bodies that block, and events.
// While bodies compute, it returns only the tasks of r that are in Blocking.
func (r *run) holders() (lines []string, computes bool) {
	rt := r.rt
	onSlots := rt.Workers() - rt.sched.Parked()
	computes = onSlots > 0 && !rt.stuck.BodiesBlocked()
	blocking := false
	lines = describeParked(func(k *parked) bool {
		outside := k.t.run == r && k.state == parkOutside
		blocking = blocking || outside
		return outside || k.t.run == r && !computes
	})
	switch {
	case computes:
	case rt.cfg.Watchdog > 0:
		lines = rt.describeWaits()
	case onSlots > 0:
		lines = append(lines, rt.stuck.Slots()...)
	case !blocking:
		lines = append(lines, heldEvents)
	}
	return lines, computes
}
