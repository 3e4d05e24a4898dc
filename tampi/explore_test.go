//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// bindLab has one task and the completions that are bound to it. The binding is real. Task and
// completions are minimal models, which keep the promises of packages task and comm.
type bindLab struct {
	*explore.Run
	count xatomic.Int32 // the body, and pending events
	over  xatomic.Int32

	completions []*lateCompletion
	returned    []error // by join; used by the body alone
}

// lateCompletion is a completion that a goroutine ends once.
type lateCompletion struct {
	l      *bindLab
	err    error
	mu     xatomic.Mutex
	done   bool        // guarded by mu
	fn     func(error) // guarded by mu
	ended  xatomic.Int32
	events xatomic.Int32 // events that were ended for it
	got    error         // the error that was passed to the event
}

func newBindLab(r *explore.Run, errs ...error) *bindLab {
	l := &bindLab{Run: r}
	r.Name("task", l)
	l.count.Add(1)
	for i, err := range errs {
		e := &lateCompletion{l: l, err: err}
		r.Name(fmt.Sprint("completion", i), e)
		l.completions = append(l.completions, e)
	}
	l.returned = make([]error, len(errs))
	r.End(l.verify)
	return l
}

// OnDone calls back at once if e is complete, or when it is.
func (e *lateCompletion) OnDone(f func(error)) {
	e.mu.Lock()
	done := e.done
	if !done {
		e.fn = f
	}
	e.mu.Unlock()
	if done {
		f(e.err)
	}
}

func (e *lateCompletion) end() {
	e.ended.Add(1)
	e.mu.Lock()
	e.done = true
	f := e.fn
	e.mu.Unlock()
	if f != nil {
		f(e.err)
	}
}

// labTask is the task as the holder of an event for one completion.
type labTask struct{ e *lateCompletion }

func (h labTask) HoldFor(any) func(error) {
	l := h.e.l
	l.Check(l.over.Load() == 0, "an event of a task that is over")
	l.count.Add(1)
	return func(err error) {
		l.Check(h.e.events.Add(1) == 1, "an event is ended twice")
		h.e.got = err
		l.leave()
	}
}

// leave ends an event or the body.
func (l *bindLab) leave() {
	if l.count.Add(-1) > 0 {
		return
	}
	l.over.Add(1)
	for i, e := range l.completions {
		l.Check(e.ended.Load() == 1, "the task is over before completion %d", i)
	}
}

// body binds the completions one after the other, and ends.
func (l *bindLab) body() {
	l.Go("body", func() {
		for i, e := range l.completions {
			l.bind(i, e)
		}
		l.leave()
	})
}

func (l *bindLab) bind(i int, e *lateCompletion) { l.returned[i] = join(labTask{e}, e) }

// verify checks that the task is over once, and that each error was reported once.
func (l *bindLab) verify() error {
	if l.over.Load() != 1 {
		return fmt.Errorf("the task is over %d times, with the count %d", l.over.Load(), l.count.Load())
	}
	for i, e := range l.completions {
		reported := []error{l.returned[i], e.got}
		if !slices.Equal(reported, []error{e.err, nil}) && !slices.Equal(reported, []error{nil, e.err}) {
			return fmt.Errorf("completion %d: Iwait returns %v, the event has %v, of %v", i, l.returned[i], e.got, e.err)
		}
	}
	return nil
}

var errEnding = errors.New("ending")

// TestExploreIwait: a task is over when its body and all bound completions are over, and not
// before. An error is returned by Iwait or ends the task's event, whichever comes first.
func TestExploreIwait(t *testing.T) {
	for _, p := range []struct {
		name  string
		setup func(r *explore.Run)
	}{
		{"complete before", func(r *explore.Run) {
			l := newBindLab(r, errEnding)
			l.Go("body", func() {
				l.completions[0].end()
				l.bind(0, l.completions[0])
				l.leave()
			})
		}},
		{"without an error", func(r *explore.Run) { binds(r, nil) }},
		{"with an error", func(r *explore.Run) { binds(r, errEnding) }},
		{"two", func(r *explore.Run) { binds(r, errEnding, nil) }},
		{"two errors", func(r *explore.Run) { binds(r, errEnding, errEnding) }},
		{"bound by another goroutine while an event is pending", func(r *explore.Run) {
			l := newBindLab(r, errEnding, nil)
			l.Go("body", func() {
				l.count.Add(1) // the event
				xatomic.Go(func() {
					l.bind(0, l.completions[0])
					l.leave()
				})
				l.bind(1, l.completions[1])
				l.leave()
			})
			l.endAll()
		}},
		{"one goroutine ends both, in reverse order", func(r *explore.Run) {
			l := newBindLab(r, nil, errEnding)
			l.body()
			l.Go("ends", func() {
				l.completions[1].end()
				l.completions[0].end()
			})
		}},
	} {
		t.Run(p.name, func(t *testing.T) { explore.Test(t, explore.Config{}, p.setup) })
	}
}

// binds explores a body that binds completions with errors. A goroutine ends each of them.
func binds(r *explore.Run, errs ...error) {
	l := newBindLab(r, errs...)
	l.body()
	l.endAll()
}

func (l *bindLab) endAll() {
	for i, e := range l.completions {
		l.Go(fmt.Sprint("ends ", i), e.end)
	}
}
