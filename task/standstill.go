// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/xatomic"
	"weft/task/internal/sched"
	"weft/task/internal/watchdog"
)

// standstill notices that the bodies on all slots block outside of this package, in a channel, say,
// while tasks are ready that would run. A timer looks; there is no goroutine, and while all slots
// are parked the timer runs for deadlocks only. README.md, "Blocked slots", has the argument.
type standstill struct {
	// Constant after construction.
	rt     *Runtime
	period time.Duration // between two looks
	limit  time.Duration // how long nothing has to move
	code   codeRange     // of what calls bodies

	armed atomic.Bool // the timer runs
	dead  deadlock

	mu        sync.Mutex
	timer     *time.Timer   // +checklocks:mu
	closed    bool          // +checklocks:mu
	last, now []slotView    // of the last look, and room for the next. +checklocks:mu
	queued    [3]int64      // likewise: the lengths of the common queues. +checklocks:mu
	used      time.Duration // likewise: processor time of the process. +checklocks:mu
	since     time.Time     // nothing has moved; zero: something has. +checklocks:mu
	proofs    int           // looks in a row that have found all bodies blocked. +checklocks:mu
	said      bool          // this standstill is reported. +checklocks:mu
	once      bool          // one is, by a runtime without a watchdog. +checklocks:mu
	held      time.Time     // when somebody has last looked what a run waits for. +checklocks:mu
}

// codeRange are the program counters of a function.
type codeRange struct{ lo, hi uintptr }

// callsBody is the code of the only function that calls bodies. Compilers do not put it into others, since it recovers.
var callsBody = sync.OnceValue(func() codeRange {
	f := runtime.FuncForPC(reflect.ValueOf((*Task).callHere).Pointer())
	r := codeRange{f.Entry(), f.Entry() + 1}
	for g := f; g != nil && g.Entry() == f.Entry(); r.hi++ {
		g = runtime.FuncForPC(r.hi)
	}
	return r
})

// slotView is what a look sees of a slot. It changes when the slot takes another task.
type slotView struct {
	sched.View
	cur *Task
}

const (
	standPeriod = 500 * time.Millisecond
	standLimit  = 3 * time.Second      // without a watchdog (guess: nobody waits that long on purpose)
	standProofs = 2                    // looks in a row that must find all bodies blocked
	standShare  = 10                   // a process that uses a tenth of a processor computes (guess)
	standNoise  = 2 * time.Millisecond // what looks and the collector use themselves (guess)
)

func (w *standstill) open(rt *Runtime) {
	w.period, w.limit = min(standPeriod, w.dead.period), standLimit
	if d := rt.cfg.Watchdog; d > 0 {
		w.period, w.limit = min(w.period, max(d/watchdog.Looks, time.Millisecond)), d
	}
	w.rt, w.code = rt, callsBody()
	w.wakes()
}

// wakes is called after a slot was taken off the list of the parked. Of wakes and look, at least one
// sees the other: look takes armed back before it counts the parked.
func (w *standstill) wakes() {
	if w.period != 0 && !w.armed.Load() {
		w.arm()
	}
}

func (w *standstill) arm() { w.armFor(w.period) }

func (w *standstill) armFor(d time.Duration) {
	if xatomic.Driven() || !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.look)
	default:
		w.timer.Reset(d)
	}
}

func (w *standstill) close() {
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

// look is the function of the timer.
func (w *standstill) look() {
	w.armed.Store(false)
	w.mu.Lock()
	asleep, closed := w.rt.sched.AllParked(), w.closed
	text := ""
	if asleep || closed {
		w.last = nil // it refers to tasks
		w.moved(time.Time{})
	} else {
		text = w.sample(time.Now())
	}
	w.mu.Unlock()
	if text != "" {
		w.rt.report(text)
	}
	switch {
	case closed:
	case !asleep:
		w.arm()
	default:
		if d := w.dead.look(); d > 0 {
			w.armFor(d)
		}
	}
}

// moved notes that something has moved, just before now.
//
// +checklocks:w.mu
func (w *standstill) moved(now time.Time) { w.since, w.proofs, w.said = now, 0, false }

// sample compares what it sees with what the last look has seen, and returns a report if one is due.
//
// +checklocks:w.mu
func (w *standstill) sample(now time.Time) string {
	rt := w.rt
	used, known := processorTime()
	spent := used - w.used
	w.used = used
	ready := rt.sched.Work()
	still := w.view() && !w.since.IsZero()
	if !still || !ready && rt.cfg.Watchdog == 0 || known && spent > max(w.period/standShare, standNoise) { // bodies compute
		w.moved(now)
		return ""
	}
	if w.said || w.once && rt.cfg.Watchdog == 0 || now.Sub(w.since) < w.limit {
		return ""
	}
	if !w.bodiesBlocked() { // they compute, and get little of the processor
		w.moved(now)
		return ""
	}
	w.used, _ = processorTime() // without what that took
	if w.proofs++; w.proofs < standProofs {
		return ""
	}
	text := w.describe(now, ready)
	if w.said = text != ""; w.said {
		w.once = true
	}
	return text
}

// view looks at the slots and queues, and reports whether each slot runs the body that it ran at the
// last look, and no task was queued or taken.
//
// +checklocks:w.mu
func (w *standstill) view() (same bool) {
	rt := w.rt
	w.now = w.now[:0]
	same = len(w.last) == len(rt.slots.all)
	for i, s := range rt.slots.all {
		v := s.view()
		same = same && v == w.last[i] && v.cur != nil // so s is neither parked nor looks for work
		w.now = append(w.now, v)
	}
	queued := rt.sched.Lengths()
	same = same && queued == w.queued
	w.last, w.now, w.queued = w.now, w.last, queued
	return same
}

func (s *slot) view() slotView {
	return slotView{s.View(), s.cur.load()}
}

// bodiesBlocked reports whether no body of this process runs on a processor or wants one: each goroutine
// that runs a body is parked by Go's scheduler, or in a system call. It compares program counters with
// the code of callHere, so the name of that does not matter.
func (w *standstill) bodiesBlocked() bool {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		return false // there are more by now, so some goroutine has made some
	}
	for i := range records[:n] {
		pcs := records[i].Stack()
		runsBody := len(pcs) == len(records[i].Stack0) // it may be further down
		for _, pc := range pcs {
			runsBody = runsBody || w.code.lo < pc && pc <= w.code.hi
		}
		if runsBody && !blockedAt(pcs[0]) {
			return false
		}
	}
	return true
}

// blockedAt reports whether a goroutine whose innermost return address is pc does not run: gopark
// parks all that wait in Go; the other functions are those of system calls.
func blockedAt(pc uintptr) bool {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return f.Function == "runtime.gopark" || strings.HasPrefix(f.Function, "syscall.") ||
		strings.HasPrefix(f.Function, "internal/runtime/syscall")
}
