// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package lint is lint mode: it shows the race detector the order that a program declares, in place
// of the order in which it happens to run. Each body runs on a goroutine of its own that has seen
// nothing, and is told by hand what it may rely on: the spawn, the accesses, the waits. README.md
// of package task, "Lint mode", has the rules and why they are enough.
package lint

import (
	"runtime"

	"weft/internal/chain"
	"weft/internal/race"
)

// Enter makes a record of a task, of which parent is the parent's; nil for the main task of a run.
// The caller is the body of the parent, or calls Run. wait: the task has Attrs.Wait. loop: it is
// one of a recorded loop.
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

// Apart runs f on a goroutine whose clock has seen nothing, and then back on the caller's. A panic
// passes on, and so does Goexit.
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
			f = nil // what it uses can be collected
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

// Shows makes what the caller has done come before what those do who call Sees.
func (l *Lint) Release() { race.Release(&l.world) }

// Sees lets the caller see what has been done, if it is no body's goroutine.
func (l *Lint) Acquire(body bool) {
	if !body || l.off != nil {
		race.Acquire(&l.world)
	}
}

// Start makes the caller, r's body, come after what r has declared to come after.
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

// End makes what the caller, r's body or the end of one of its events, has done come before what
// waits for it.
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

// Prepared notes that the caller, OnReady or the end of an event of r's task, comes before the
// body.
func (r *Record) Prepared() { race.Release(&r.born) }

// Said notes that what the caller has done comes before the end of a Wait for r's run.
func (r *Record) RunEnds() {
	race.Release(&r.done)
	r.l.Release()
}

// Follows notes that a recorded loop's graph puts tasks before r's.
func (r *Record) Follows(tasks ...*Record) { r.preds = append(r.preds, tasks...) }

// Waited notes that the caller, the body of r's task, has waited for all its children.
func (r *Record) Waited() {
	r.follow(&r.kids)
	r.forget(false)
}

// Over notes that r's task is over, with all below it.
func (r *Record) Over() { r.forget(true) }

// Joined notes that the caller has waited for the body of r's task; all: and for what is below it.
func (r *Record) Joined(all bool) {
	r.follow(&r.done)
	if all {
		r.follow(&r.kids)
	}
}
