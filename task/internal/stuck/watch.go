// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stuck

import (
	"fmt"
	"strings"
	"time"

	"weft/internal/xatomic"
	"weft/task/internal/say"
	"weft/task/internal/sched"
	"weft/task/internal/watchdog"
)

const (
	standPeriod = 500 * time.Millisecond
	// without a watchdog (guess: no program blocks that long on purpose)
	standLimit  = 3 * time.Second
	standProofs = 2 // checks in a row that must find all bodies blocked
	// a process that uses a tenth of a processor computes (guess)
	standShare = 10
	standNoise = 2 * time.Millisecond // used by the checks and the garbage collector (guess)
)

// Open starts to watch h, whose tasks q schedules.
func (w *Watch) Open(h Host, q *sched.Scheduler, cfg Config) {
	w.host, w.sched, w.cfg = h, q, cfg
	w.dead.open(w, cfg.Deadlock)
	w.period, w.limit = min(standPeriod, w.dead.period), standLimit
	if d := cfg.Watchdog; d > 0 {
		w.period, w.limit = min(w.period, max(d/watchdog.ChecksPerLimit, time.Millisecond)), d
	}
	w.Wakes()
}

// Wakes is called after a slot has left the list of parked slots. Of Wakes and check, at least one
// sees the other: check clears armed before it counts the parked slots. Before Open, Wakes does
// nothing.
func (w *Watch) Wakes() {
	if w.period != 0 && !w.armed.Load() {
		w.arm()
	}
}

// Armed reports whether the timer runs. It is for tests.
func (w *Watch) Armed() bool { return w.armed.Load() }
func (w *Watch) arm()        { w.armFor(w.period) }

func (w *Watch) armFor(d time.Duration) {
	if xatomic.Driven() || !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.check)
	default:
		w.timer.Reset(d)
	}
}

// Close stops the timer. A check that is under way may continue for a moment.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.dead.stop != nil {
		close(w.dead.stop)
	}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// check is the timer's function.
func (w *Watch) check() {
	w.armed.Store(false)
	w.mu.Lock()
	asleep, closed := w.sched.AllParked(), w.closed
	text := ""
	if asleep || closed {
		w.last = nil // so that it keeps no tasks
		w.moved(time.Time{})
	} else {
		text = w.sample(time.Now())
	}
	w.mu.Unlock()
	if text != "" {
		w.host.Report(text)
	}
	switch {
	case closed:
	case !asleep:
		w.arm()
	default:
		if d := w.dead.check(); d > 0 {
			w.armFor(d)
		}
	}
}

// moved notes that something has moved just before now.
//
// +checklocks:w.mu
func (w *Watch) moved(now time.Time) { w.since, w.proofs, w.reported = now, 0, false }

// sample compares slots and queues with the last check, and returns a report if one is due.
//
// +checklocks:w.mu
func (w *Watch) sample(now time.Time) string {
	used, known := processorTime()
	spent := used - w.used
	w.used = used
	ready := w.sched.Work()
	still := w.view() && !w.since.IsZero()
	if !still || !ready && w.cfg.Watchdog == 0 || known && spent > max(w.period/standShare, standNoise) {
		// bodies compute
		w.moved(now)
		return ""
	}
	if w.reported || w.once && w.cfg.Watchdog == 0 || now.Sub(w.since) < w.limit {
		return ""
	}
	if !w.BodiesBlocked() { // they compute, and get little processor time
		w.moved(now)
		return ""
	}
	w.used, _ = processorTime() // so that BodiesBlocked does not count
	if w.proofs++; w.proofs < standProofs {
		return ""
	}
	text := w.describe(now, ready)
	if w.reported = text != ""; w.reported {
		w.once = true
	}
	return text
}

// BodiesBlocked reports whether no body of this process runs on a processor or wants one.
func (w *Watch) BodiesBlocked() bool { return w.cfg.Calls.allBlocked() }

const maxBlockedSlots = 8 // in a report

// describe returns a report of the blocked bodies; "" if something has moved meanwhile.
//
// +checklocks:w.mu
func (w *Watch) describe(now time.Time, ready bool) string {
	list := make([]Body, w.cfg.Slots)
	for i, v := range w.last {
		list[i] = w.host.Describe(v.task)
		w.host.Seen(i, v.task)
	}
	// The description of a task is right if its body still runs. If the body is over, the memory
	// may serve another task by now.
	if !w.view() {
		return ""
	}
	calls := w.cfg.Calls.name() + "("
	stacks := bodyStacks(calls)
	var b strings.Builder
	what := "no slot is free"
	if ready {
		what = "tasks are ready, and no slot takes them"
	}
	fmt.Fprintf(&b, "weft: %s: for %v the body on %s has been blocked:\n", what, say.Short(now.Sub(w.since)), eachOf(len(list)))
	for i, x := range list {
		if i == maxBlockedSlots {
			fmt.Fprintf(&b, "  and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "  slot %d: %s", i, x.Name)
		writeStack(&b, stacks.take(calls+x.Addr, x.Func, calls))
	}
	b.WriteString("A body keeps its slot while it blocks in a channel, a lock or a system call; so call what blocks by Task.Blocking:\n" +
		"    t.Blocking(func() { v = <-ch })\n" +
		"Messages and requests of package comm have package tampi for this, and waits for tasks have Task.Wait, WaitOn and Await.\n")
	return b.String()
}

// Slots describes what the bodies on the slots block in, and names their tasks.
func (w *Watch) Slots() (lines []string) {
	type seen struct {
		view
		Body
	}
	before := make([]seen, w.cfg.Slots)
	for i := range before {
		if v := w.slot(i); v.task != nil {
			before[i] = seen{v, w.host.Describe(v.task)}
			w.host.Seen(i, v.task)
		}
	}
	calls := w.cfg.Calls.name() + "("
	stacks := bodyStacks(calls)
	for i, x := range before {
		now := w.slot(i)
		if now.task == nil {
			continue
		}
		if len(lines) == maxBlockedSlots {
			return append(lines, "and more")
		}
		var b strings.Builder
		fmt.Fprintf(&b, "the body on slot %d", i)
		if now == x.view { // otherwise that task is over, and its description may mix two tasks
			fmt.Fprintf(&b, ", of %s", x.Name)
		}
		writeStack(&b, stacks.take(fmt.Sprintf("%s%p", calls, now.task), "", calls))
		lines = append(lines, strings.TrimSuffix(b.String(), "\n"))
	}
	return lines
}

func eachOf(slots int) string {
	if slots == 1 {
		return "the only slot"
	}
	return fmt.Sprintf("each of the %d slots", slots)
}
