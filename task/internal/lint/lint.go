// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package lint is lint mode: the race detector sees the order that a program declares, instead of
// the order in which it happens to run. Each body runs on its own goroutine, which is not ordered
// after anything at first. This package then orders it explicitly, by the spawn, the accesses and
// the waits. README.md of package task, "Lint mode", has the rules, and why they are enough.
package lint

import (
	"runtime"

	"weft/internal/chain"
	"weft/internal/race"
)

// Enter makes the record of a task. parent is the record of its parent; nil for the main task of a
// run. The caller is the body of the parent, or calls Run. wait: the task has Attrs.Wait. loop: it
// belongs to a recorded loop.
func (l *Lint) Enter(parent *Record, accs []chain.Access, wait, loop bool) *Record {
	if l.off != nil {
		race.Release(&l.world)
		return l.off
	}
	r := &Record{l: l, parent: parent, wait: wait, loop: loop}
	l.lock()
	r.enter(accs)
	l.unlock()
	race.Release(&r.born)
	race.Release(&r.l.world)
	return r
}

// Apart runs f on a new goroutine that is not ordered after anything, and then back on the caller's
// goroutine. A panic of f, and Goexit, pass on to the caller.
func (l *Lint) Apart(f func(), back func(returned bool)) {
	var value any
	returned, panicked := false, false
	done := make(chan struct{}, 1)
	race.Disable()
	go func() {
		defer func() {
			if !returned {
				value = recover()
				panicked = value != nil
			}
			race.Disable()
			f = nil // so that its memory can be collected
			done <- struct{}{}
			l.keep()
			race.Enable()
		}()
		f()
		returned = true
	}()
	l.asleep.Sleep()
	<-done
	l.asleep.Wake()
	race.Enable()
	back(returned)
	switch {
	case panicked:
		panic(value)
	case !returned:
		runtime.Goexit()
	}
}

// Release orders what the caller has done before what callers of Acquire do later.
func (l *Lint) Release() { race.Release(&l.world) }

// Acquire orders the caller after all callers of Release so far, and after everything that bodies
// have done, unless the goroutine is a body's in lint mode.
func (l *Lint) Acquire(body bool) {
	if !body || l.off != nil {
		race.Acquire(&l.world)
	}
}

// Start orders the caller, r's body, after everything that r's task has declared to come after.
func (r *Record) Start() {
	r.follow(&r.born)
	for _, p := range r.preds {
		race.Acquire(&p.done)
		race.Acquire(&p.kids)
	}
	if r.off() {
		return
	}
	r.l.lock()
	clocks := r.before()
	r.l.unlock()
	for _, c := range clocks {
		race.Acquire(c)
	}
}

// End orders what the caller has done before everything that waits for r's task. The caller is r's
// body at its end, or ends one of the task's events.
func (r *Record) End() {
	race.Release(&r.done)
	race.Release(&r.l.world)
	if r.off() {
		return
	}
	for p := r.parent; p != nil; p = p.parent {
		race.Release(&p.kids)
	}
	r.l.lock()
	clocks := r.after()
	r.l.unlock()
	for _, c := range clocks {
		race.Release(c)
	}
}

// Prepared orders the caller before r's body. The caller is OnReady, or ends an event of r's task.
func (r *Record) Prepared() { race.Release(&r.born) }

// RunEnds orders what the caller has done before the end of a Wait for r's run.
func (r *Record) RunEnds() {
	race.Release(&r.done)
	r.l.Release()
}

// Follows notes that the graph of a recorded loop orders r's task after tasks.
func (r *Record) Follows(tasks ...*Record) { r.preds = append(r.preds, tasks...) }

// Waited orders the caller, the body of r's task, after all children, which it has waited for.
func (r *Record) Waited() {
	r.follow(&r.kids)
	r.forget(false)
}

// Over notes that r's task and its descendants are over.
func (r *Record) Over() { r.forget(true) }

// Joined orders the caller after the body of r's task, which it has waited for; all: after the
// descendants too.
func (r *Record) Joined(all bool) {
	r.follow(&r.done)
	if all {
		r.follow(&r.kids)
	}
}
