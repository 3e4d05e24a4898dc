// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/internal/waits"
	"weft/internal/xatomic"
	"weft/task/internal/audit"
	"weft/task/internal/say"
	"weft/task/internal/stuck"
)

// ErrClosed is returned by [Runtime.Run] after [Runtime.Close].
var ErrClosed = errors.New("task: the runtime is closed")

// ErrLocked is the cause when a body ends without unlocking a [Mutex].
var ErrLocked = errors.New("the body ended with a Mutex locked")

// ErrDeadlock is why a run ends whose tasks all wait while no goroutine of the program is left that could
// wake one. The error of the run wraps it, and says which tasks wait for what.
var ErrDeadlock = stuck.ErrDeadlock

// ErrConflict is the cause when debug mode finds two tasks that may use one object at the same time although one of
// them writes it: an ancestor of one has not declared the object, or not strongly enough.
var ErrConflict = audit.ErrConflict

// An Error says which task ended a run, and why. Err is what the body or an
// event returned, or what it panicked with.
type Error struct {
	Label string // Attrs.Label, if any
	Site  string // file:line (function) that spawned the task, or of its body; a method value has only the name
	Panic any    // value of the panic; nil if there was none
	Stack []byte // stack of the panic; nil if there was none
	Err   error
}

// Error returns one line; the stack of a panic follows on lines of its own.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("task ")
	if e.Label != "" {
		fmt.Fprintf(&b, "%q ", e.Label)
	}
	fmt.Fprintf(&b, "(spawned at %s): %v", e.Site, e.Err)
	if e.Stack != nil {
		fmt.Fprintf(&b, "\n%s", e.Stack)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// errGoexit is the cause when a body ends its goroutine.
var errGoexit = errors.New("the body called runtime.Goexit (in a test: FailNow or SkipNow, which only the test's own goroutine may call)")

// wrap makes the error of t that cause ended.
func (t *Task) wrap(cause error, panicked any, stack []byte) *Error {
	return &Error{Label: t.label, Site: t.site(), Panic: panicked, Stack: stack, Err: cause}
}

// site names where t comes from. It is only called for an error.
func (t *Task) site() string {
	pc := t.pc
	if pc == 0 {
		pc = codeOf(t.fn) + 1
	}
	return say.Place(pc)
}

// panicError turns a recovered value into an error that keeps errors apart.
func panicError(r any) error {
	if err, ok := r.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic: %v", r)
}

// plain is an error without what the tasks waited for, which is for the caller of Run.
func plain(err error) error {
	if e, ok := err.(*waits.Ended); ok {
		return e.Cause
	}
	return err
}

// name says which task t is, in a message.
func (t *Task) name() string {
	switch {
	case t.fn == nil:
		return "a task that is over"
	case t.label != "":
		return "task " + t.label + " (spawned at " + t.site() + ")"
	}
	return "the task spawned at " + t.site()
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
