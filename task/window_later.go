// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"weft/internal/xatomic"
)

// later resumes the creators of a stall that may end by itself, if it does not end soon. README.md, "The window", has the argument.
type later struct {
	// Constant after construction.
	timer    timer
	min, max time.Duration

	armed xatomic.Bool  // the timer runs
	wait  time.Duration // owned by who has armed it
}

const (
	laterMin = time.Millisecond      // a message mostly takes less
	laterMax = 16 * time.Millisecond // so that a program that needs the next children gets four thousand a second
)

func (w *window) init(rt *Runtime) {
	w.rt = rt
	w.later.min, w.later.max = laterMin, laterMax
	w.later.timer = newTimer(w.goOn)
}

// close stops the timer. The runs are over.
func (w *window) close() { w.later.timer.stop() }

// postpone has the creators resumed later, unless something happens before. All slots are parked.
func (w *window) postpone() {
	l := &w.later
	if !l.armed.CompareAndSwap(false, true) { // L1
		return
	}
	if l.wait = min(2*l.wait, l.max); w.eased.Swap(false) || l.wait == 0 {
		l.wait = l.min
	}
	l.timer.start(l.wait)
}

// goOn resumes the creators if all slots are parked still, or again.
func (w *window) goOn() {
	w.later.armed.Store(false)  //bug:L2
	if w.rt.sched.AllParked() { // L3
		w.resumeAll()
	}
}
