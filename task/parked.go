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
		version += k.turns
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

// Bounds of what the end of a run says of a runtime's tasks: tasks, and lines where a watchdog has
// a list of them.
const (
	maxWaits  = 16
	maxDumped = 100
)

// describeWaits says which tasks wait, for what.
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

// describeParked says which of the tasks that wait without a slot wait for what.
func describeParked(of func(*parked) bool) (lines []string) {
	n := 0
	eachParked(func(k *parked) {
		if k.t == nil || !of(k) {
			return
		}
		race.Acquire(&k.told) // in lint mode, the body's writes to what is printed here
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

// heldEvents is what a run waits for that has no task which waits.
const heldEvents = "tasks have events that nobody has completed (Hold); Config.Watchdog would list them"

// waitingRuns are the runs with tasks that wait without a slot. Where a run has none, it waits for
// events only, which nothing but their ends can complete.
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

// lateAfter is how long a run may go on after it has failed before its failure is reported (guess).
// Most runs return the error by then; a program that prints that should not have it twice.
// lateHolders is how long it takes until it is said what the run waits for (guess: most bodies that
// look at their context, or compute, are over by then).
const (
	lateAfter   = time.Second
	lateHolders = 3 * time.Second
)

// begin is called once, when the run has ended early. That its context has ended, the caller knows;
// a deadlock has been said.
func (l *lateRun) begin(r *run, err error) {
	if xatomic.Driven() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var of *Error
	switch {
	case l.ended:
	case errors.As(err, &of):
		l.timer = time.AfterFunc(lateAfter, func() { l.tellFailure(r, err) })
	case errors.Is(err, ErrDeadlock):
	default:
		l.timer = time.AfterFunc(lateHolders, func() { l.tellHolders(r, err) })
	}
}

func (l *lateRun) tellFailure(r *run, err error) {
	l.mu.Lock()
	defer l.mu.Unlock() // a run that ends now waits for this
	if !l.ended {
		_, _ = fmt.Fprintf(r.rt.cfg.Reports, "weft: a run has failed, and is not over: tasks of it still run, or wait for what nobody gives: %v\n", err)
		l.timer = time.AfterFunc(lateHolders, func() { l.tellHolders(r, err) })
	}
}

// tellHolders says what the run waits for, once, as soon as that does not compute.
func (l *lateRun) tellHolders(r *run, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if !r.rt.looked.mayLook() {
		l.timer.Reset(lateHolders)
		return
	}
	lines, computes := r.holders()
	if len(lines) == 0 {
		if l.pause = max(2*l.pause, 2*lateHolders); computes {
			l.timer.Reset(l.pause)
		}
		return
	}
	why, _, _ := strings.Cut(plain(err).Error(), "\n")
	_, _ = fmt.Fprintf(r.rt.cfg.Reports, "weft: a run has ended early, and is not over (%s). No body is interrupted, and it waits for these:\n  %s\n",
		why, strings.Join(lines, "\n  "))
}

// over is called when the run is over.
func (l *lateRun) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// mayLook reports whether nobody has looked what a run of this runtime waits for a short time ago:
// a look stops the program for a moment, and there may be many runs.
func (l *lastLook) mayLook() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.at) < lateHolders {
		return false
	}
	l.at = now
	return true
}

// holders says what r, which has ended early, still waits for: bodies that block, and events. It
// says nothing while bodies compute, and none of r's is in Blocking.
func (r *run) holders() (lines []string, computes bool) {
	rt := r.rt
	onSlots := rt.Workers() - rt.sched.Parked()
	computes = onSlots > 0 && !rt.still.BodiesBlocked()
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
		lines = append(lines, rt.still.Slots()...)
	case !blocking:
		lines = append(lines, heldEvents)
	}
	return lines, computes
}
