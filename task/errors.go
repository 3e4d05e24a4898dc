// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"

	"weft/internal/waits"
	"weft/task/internal/audit"
	"weft/task/internal/say"
	"weft/task/internal/stuck"
)

// ErrClosed is returned by [Runtime.Run] after [Runtime.Close].
var ErrClosed = errors.New("task: the runtime is closed")

// ErrLocked is the cause when a body ends without unlocking a [Mutex].
var ErrLocked = errors.New("the body ended with a Mutex locked")

// ErrDeadlock ends a run when all its tasks wait and no goroutine of the program is left that could
// wake one. The error of the run wraps it, and says which tasks wait for what.
var ErrDeadlock = stuck.ErrDeadlock

// ErrConflict is the cause when debug mode finds two tasks that may use one object at the same time
// although one of them writes it: an ancestor of one has not declared the object, or not strongly
// enough.
var ErrConflict = audit.ErrConflict

// An Error says which task ended a run, and why. Err is what the body or an
// event returned, or what it panicked with.
type Error struct {
	Label string // Attrs.Label, if any
	// file:line (function) that spawned the task, or of its body; a method value has only the name
	Site  string
	Panic any    // value of the panic; nil if there was none
	Stack []byte // stack of the panic; nil if there was none
	Err   error
}

// Error returns one line; the stack of a panic follows on lines of its own.
func (e *Error) Error() string {
	text := fmt.Sprintf("(spawned at %s): %v", e.Site, e.Err)
	if e.Label != "" {
		text = fmt.Sprintf("%q %s", e.Label, text)
	}
	if e.Stack != nil {
		text = fmt.Sprintf("%s\n%s", text, e.Stack)
	}
	return "task " + text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// errGoexit is the cause when a body ends its goroutine.
var errGoexit = errors.New("the body called runtime.Goexit (in a test: FailNow or SkipNow, which only the test's own goroutine may call)")

// wrap makes the error of t that cause ended.
func (t *Task) wrap(cause error, panicked any, stack []byte) *Error {
	return &Error{Label: t.label, Site: t.site(), Panic: panicked, Stack: stack, Err: cause}
}

// site returns where t was spawned, or else where its body is. It is only called for an error.
func (t *Task) site() string {
	pc := t.pc
	if pc == 0 {
		pc = codeOf(t.fn) + 1
	}
	return say.Position(pc)
}

// panicError turns a recovered value into an error that keeps errors apart.
func panicError(r any) error {
	if err, ok := r.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic: %v", r)
}

// mustCall panics if the function that the method op is to call is nil, before anything has
// changed.
func mustCall(op, preposition string, ok bool) {
	if !ok {
		panic("task: " + op + " " + preposition + " a nil function")
	}
}

// plain returns err without the list of what tasks waited for; that list is for the caller of Run.
func plain(err error) error {
	if e, ok := err.(*waits.Ended); ok {
		return e.Cause
	}
	return err
}

// name describes t in a message.
func (t *Task) name() string {
	switch {
	case t.fn == nil:
		return "a task that is over"
	case t.label != "":
		return "task " + t.label + " (spawned at " + t.site() + ")"
	}
	return "the task spawned at " + t.site()
}
