// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"strings"
)

// checkError checks what Run returned.
func (l *lifetime) checkError(err error) {
	var want error
	label := "subject"
	switch {
	case l.readyFails():
		want = errReady
	case strings.HasPrefix(l.run, "cancelled"):
		l.n.check(err == errCancel, "Run returned %v; want the cause of the context", err)
		return
	case l.run == "sibling failed":
		want, label = errSibling, "sibling"
	case l.result == "goexit":
		want = errGoexit
	case l.result == "error" || l.result == "panic":
		want = errBody
	case l.result == "panicvalue":
	case l.lock == "not unlocked":
		want = ErrLocked
	case l.events == "error by a goroutine":
		want = errEvent
	default:
		l.n.check(err == nil, "Run returned %v", err)
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		l.n.check(false, "Run returned %v, which is no *Error", err)
		return
	}
	l.n.check(want == nil || errors.Is(err, want), "Run returned %v; want %v", err, want)
	l.n.check(e.Label == label, "the error names %q", e.Label)
	l.n.check(strings.Contains(e.Site, "product_test.go:"), "the error is from %s", e.Site)
	panicked := label == "subject" && strings.HasPrefix(l.result, "panic")
	if l.readyFails() {
		panicked = l.ready == "panic"
	}
	l.n.check(panicked == (e.Panic != nil) && panicked == (e.Stack != nil), "panic %v, stack of %d bytes", e.Panic, len(e.Stack))
	if panicked {
		where := "(*lifetime).subject"
		if l.readyFails() {
			where = "(*lifetime).onReady"
		}
		l.n.check(strings.Contains(string(e.Stack), where), "the stack does not show the body:\n%s", e.Stack)
	}
	if panicked && l.result == "panicvalue" && !l.readyFails() {
		l.n.check(e.Panic == 7 && e.Err.Error() == "panic: 7", "panic %v, cause %v", e.Panic, e.Err)
	}
}

// checkRuns checks which bodies ran: the successors if and only if nothing had failed before.
func (l *lifetime) checkRuns(err error) {
	want := int32(0)
	if err == nil {
		want = 1
	}
	l.n.check(l.started.Load() == (l.run != "cancelled before" && !l.readyFails()), "the subject started: %v", l.started.Load())
	l.n.check(l.readyOver.Load() == (l.ready != "none" && l.run != "cancelled before"), "OnReady is over: %v", l.readyOver.Load())
	l.n.check(l.m.holder == nil && l.own.holder == nil, "a Mutex is locked after the run")
	l.n.check(l.bodyOver.Load() == l.started.Load(), "the subject's body is over: %v", l.bodyOver.Load())
	l.n.check(l.events == "none" || !l.started.Load() || l.released.Load(), "Run returned before the event was over")
	l.n.check(l.after.Load() == want && l.after2.Load() == want, "successors ran %d and %d times; want %d", l.after.Load(), l.after2.Load(), want)
}
