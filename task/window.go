// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"weft/internal/event"
	"weft/internal/xatomic"
)

// windowLook is how many children a task makes between two looks at the window.
const windowLook = 64

// live is the number of t's children that count in the window, as far as
// the counters know. Precondition: t's body is the caller, or waits in the window.
func (t *Task) live() int64 { return t.spawned + t.count.Load() - int64(t.idle.Load()) }

// throttle makes t, which makes children, wait if too many of them are live.
func (t *Task) throttle() {
	w := &t.run.rt.window
	most := int64(t.run.rt.cfg.Window)
	if most < 0 || t.live() <= most {
		return
	}
	s := t.slot
	s.tell()
	s.settle(false)
	if t.live() <= most {
		return
	}
	t.prepare(waiting{op: opWindow})
	w.add(t)
	// A child that ended just now may have looked before t was in the list.
	if t.live() <= most/2 && w.remove(t) {
		t.unprepare()
		return
	}
	t.park(s, event.BlockedWindow)
}

func (w *window) add(t *Task) {
	w.mu.Lock()
	w.list = append(w.list, t)
	w.n.Add(1)
	w.mu.Unlock()
}

// remove takes t out; false if somebody else has done so, who resumes it.
func (w *window) remove(t *Task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, x := range w.list {
		if x == t {
			w.removeLocked(i)
			return true
		}
	}
	return false
}

func (w *window) removeLocked(i int) {
	last := len(w.list) - 1
	w.list[i] = w.list[last]
	w.list[last] = nil
	w.list = w.list[:last]
	w.n.Add(-1)
}

// look resumes the creators of which half the window is over. It is called
// after children were counted as over.
func (w *window) look() {
	if w.n.Load() == 0 {
		return
	}
	low := int64(w.rt.cfg.Window / 2)
	if w.resume(func(t *Task) bool { return t.live() <= low }) && !w.eased.Load() {
		w.eased.Store(true)
	}
}

// stalled is called when every slot is idle: what the live children wait for may be what the
// creators have not made yet. But it is more likely to come from elsewhere, such as a message, so
// the creators go on only if it does not come soon. Else a program that waits for messages, now and
// then, would make ever more tasks.
func (w *window) stalled() {
	if w.n.Load() > 0 {
		w.postpone() //bug:stall
	}
}

func (w *window) resume(which func(*Task) bool) (any bool) {
	var out [8]*Task
	for {
		n := 0
		w.mu.Lock()
		for i := len(w.list) - 1; i >= 0 && n < len(out); i-- {
			if t := w.list[i]; which(t) {
				out[n] = t
				n++
				w.removeLocked(i)
			}
		}
		w.mu.Unlock()
		for _, t := range out[:n] {
			w.rt.resume(t)
		}
		any = any || n > 0
		if n < len(out) {
			return any
		}
	}
}

const (
	laterMin = time.Millisecond // a message mostly takes less
	// so that a program that needs the next children gets four thousand a second
	laterMax = 16 * time.Millisecond
)

func (w *window) init(rt *Runtime) {
	w.rt = rt
	w.later.min, w.later.max = laterMin, laterMax
	w.later.timer = xatomic.NewTimer(w.goOn)
}

// postpone has the creators resumed later, unless something happens before. All slots are parked.
func (w *window) postpone() {
	l := &w.later
	if !l.armed.CompareAndSwap(false, true) { // L1
		return
	}
	if l.wait = min(2*l.wait, l.max); w.eased.Swap(false) || l.wait == 0 {
		l.wait = l.min
	}
	l.timer.Start(l.wait)
}

// goOn resumes the creators if all slots are parked still, or again.
func (w *window) goOn() {
	w.later.armed.Store(false)  //bug:L2
	if w.rt.sched.AllParked() { // L3
		w.resume(func(*Task) bool { return true })
	}
}
