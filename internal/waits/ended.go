// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Ended is the end of a context, with what was going on then.
type Ended struct {
	Cause error    // of the context, which matches its Err too
	Waits []string // who waited for what
}

// Error has all of it.
func (e *Ended) Error() string {
	if len(e.Waits) == 0 {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%v; when it ended:\n%s", e.Cause, strings.Join(e.Waits, "\n"))
}

// Unwrap returns the cause.
func (e *Ended) Unwrap() error { return e.Cause }

// both is a cause that does not match the error of its context.
type both struct{ cause, err error }

func (e *both) Error() string   { return fmt.Sprintf("%v (%v)", e.cause, e.err) }
func (e *both) Unwrap() []error { return []error{e.cause, e.err} }

// Cause is [context.Cause] of a context that has ended, which matches [context.DeadlineExceeded] where a deadline has ended it,
// also if the program has given that a cause of its own.
func Cause(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(cause, err) {
		return cause
	}
	return &both{cause, err}
}

// Explained reports whether an error says already why a run has ended: by a run around this one.
func Explained(err error) bool {
	var e interface{ EndsRun() bool }
	return errors.As(err, &e) && e.EndsRun()
}

// EndsRun makes Ended an error that says why a run has ended.
func (e *Ended) EndsRun() bool { return true }

// End returns the cause of a context that has ended, with lines that say who waits for what, if the cause does not
// explain itself.
func End(ctx context.Context, lines func() []string) error {
	cause := Cause(ctx)
	if Explained(cause) {
		return cause
	}
	return &Ended{Cause: cause, Waits: lines()}
}
