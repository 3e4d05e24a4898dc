// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/internal/xatomic"
)

// lateAfter is how long a run may go on after it has failed before its failure is reported (guess). Most runs
// return the error by then; a program that prints that should not have it twice.
const lateAfter = time.Second

// lateFailure has the failure of a run written where the run does not return it, since some body or event of it
// is not over, and may never be.
type lateFailure struct {
	mu    sync.Mutex
	timer *time.Timer // +checklocks:mu
	ended bool        // the run is over. +checklocks:mu
}

// begin is called once, when the run has failed.
func (l *lateFailure) begin(rt *Runtime, err error) {
	var of *Error
	if !errors.As(err, &of) || xatomic.Driven() {
		return // its context has ended, which the caller knows
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.timer = time.AfterFunc(lateAfter, func() { l.tell(rt, err) })
	}
}

func (l *lateFailure) tell(rt *Runtime, err error) {
	l.mu.Lock()
	defer l.mu.Unlock() // a run that ends now waits for this
	if !l.ended {
		_, _ = fmt.Fprintf(rt.cfg.Reports, "weft: a run has failed, and is not over: tasks of it still run, or wait for what nobody gives: %v\n", err)
	}
}

// over is called when the run is over.
func (l *lateFailure) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
