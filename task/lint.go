// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"

	"weft/deps"
	"weft/internal/race"
	"weft/internal/waits"
)

// Lint mode shows the race detector the order that a program declares, in place of the order in which it happens to run. Each body runs on a
// goroutine of its own that has seen nothing, and is told by hand what it may rely on: the spawn, the accesses, the waits. README.md, "Lint
// mode", has the rules and why they are enough.

// errLint says what lint mode needs.
var errLint = errors.New("task: lint mode needs a build with the race detector from which weft's own runtime is left out; " +
	"start the program by weft lint, as in: go run weft/cmd/weft lint go run PROGRAM; a list of -tags of the go command's own has to have " + LintTag)

// LintTag is the build tag of a build for lint mode. Such a build leaves LintPackages out of the race detector, by the flag -race=false of the
// compiler for each; the command "weft lint" sees to both.
const LintTag = "weftlint"

// LintPackages are the packages that a build for lint mode leaves out of the race detector.
var LintPackages = []string{"weft/deps", "weft/task", "weft/task/internal/addrmap", "weft/task/internal/audit", "weft/task/internal/record", "weft/task/internal/say", "weft/task/internal/watchdog", "weft/tampi", "weft/internal/race", "weft/internal/xatomic", "weft/internal/event"}

// clock is what the race detector keeps an order for: the value is not used. A goroutine that acquires it comes after all that
// those have done who released it before.
type clock uint64

// lint is a runtime's lint mode.
type lint struct {
	mu sync.Mutex // of all chains; not seen by the race detector

	// world is released by all who spawn and all who end, and acquired by the goroutines that run slots: what
	// these do for the runtime comes after everything. It is never acquired by a body.
	world clock

	// off is the one record of all tasks where lint mode is off; nil where it is on.
	off *linted

	asleep *waits.Counter // the goroutines that wait for those of bodies, or stay
	closed bool           // no goroutine stays any more. +checklocks:stayed.mu
}

// newLint returns the lint mode of a runtime in a build for it. Lint mode can be off there, but the race detector
// sees the runtime no more for that. So it is told by hand the order in which things happen: who acquires world
// comes after all that bodies have done until then, so that two race only while both run.
func newLint(on bool) *lint {
	l := &lint{asleep: waits.NewCounter()}
	if !on {
		l.off = &linted{l: l}
	}
	return l
}

// off reports whether lint mode is off.
func (r *linted) off() bool { return r == r.l.off }

// follow makes the caller come after all who have released c, or, where lint mode is off, world.
func (r *linted) follow(c *clock) {
	if r.off() {
		c = &r.l.world
	}
	race.Acquire(c)
}

func (l *lint) lock() {
	race.Hide()
	l.mu.Lock()
}

func (l *lint) unlock() {
	l.mu.Unlock()
	race.Show()
}

// linted is what lint mode knows of a task.
type linted struct {
	l      *lint
	parent *linted // nil for a main task
	wait   bool    // Attrs.Wait

	born clock // released by the creator
	done clock // by the body at its end, and by its events
	kids clock // by all descendants at their ends

	uses  []*lintUse
	dom   *lintDomain // the children's chains. +checklocks:l.mu
	preds []*linted   // of a task of a recorded loop: the tasks that its graph puts before it
	loop  bool
}

// note makes a record of c, a new child of t; t is nil for a main task. The caller is t's body, or who calls Run.
func (l *lint) note(t, c *Task, accs []deps.Access, loop bool) *linted {
	if l.off != nil {
		race.Release(&l.world)
		return l.off
	}
	r := &linted{l: l, wait: c.Flags&flagWait != 0, loop: loop}
	if t != nil {
		r.parent = t.more.linted
	}
	r.declare(accs)
	if r.parent != nil && !loop && len(r.uses) > 0 {
		r.l.lock()
		r.enter()
		r.l.unlock()
	}
	for _, u := range r.uses {
		u.access = deps.Access{}
	}
	race.Release(&r.born)
	race.Release(&r.l.world)
	return r
}

// callApart is callHere on a goroutine of the body's own, which holds the slot meanwhile.
func (p *probe) callApart(t *Task) (err error) {
	outer, l := t.slot.outer, p.lint
	t.slot.g.Store(0)
	l.apart(func() {
		defer func() { // this goroutine's identity can be the next one's
			if s := t.slot; s != nil {
				s.g.Store(0)
			} else if outer != nil {
				outer.slot.g.Store(0)
			}
		}()
		t.slot.rt.holders.set(getg(), t.slot)
		err = p.callHere(t)
	}, func(returned bool) {
		l.sees(outer != nil)
		switch {
		case returned:
			t.slot.rt.holders.set(getg(), t.slot)
		case outer != nil: // the body has ended its goroutine: so does this one, and with it the bodies beneath
			outer.slot.rt.holders.set(getg(), outer.slot)
		}
	})
	return err
}

// onReadyApart calls t's OnReady on s as a body is called. If it panics, that is what it returns second.
func (p *probe) onReadyApart(t *Task, s *slot) (err, panicked error) {
	l, own := p.lint, t.more.linted
	if r := l.off; r != nil {
		r.start()
		defer r.end(t)
		return t.more.onReady(t), nil
	}
	s.g.Store(0)
	l.apart(func() {
		defer s.g.Store(0)
		s.rt.holders.set(getg(), s) // what a task may not call is refused here too
		defer func() {
			if r := recover(); r != nil { // here, where its stack is
				panicked = t.wrap(panicError(r), r, debug.Stack())
			}
			if err != nil || panicked != nil { // there will be no body whose end comes before that of the run
				own.end(t)
			}
		}()
		own.start()
		err = t.more.onReady(t)
		race.Release(&own.born)
	}, func(bool) { s.rt.holders.set(getg(), s) })
	return err, panicked
}

// apart runs f on a goroutine whose clock has seen nothing, and then back on the caller's. A panic passes on, and so does Goexit.
func (l *lint) apart(f func(), back func(returned bool)) {
	var value any
	returned, panicked := false, false
	done := make(chan struct{}, 1)
	race.Hide()
	go func() {
		defer func() {
			if !returned {
				value = recover()
				panicked = value != nil
			}
			race.Hide()
			f = nil // what it uses can be collected
			done <- struct{}{}
			l.keep()
			race.Show()
		}()
		f()
		returned = true
	}()
	l.asleep.Sleep()
	<-done
	l.asleep.Wake()
	race.Show()
	back(returned)
	switch {
	case panicked:
		panic(value)
	case !returned:
		runtime.Goexit()
	}
}

// callJoined calls f, which comes after all that the task of n and those below it have done.
func (p *probe) callJoined(n noted, f func()) {
	joined := func() {
		p.joined(n, true)
		f()
	}
	if n.linted == nil || n.linted.off() {
		joined()
		return
	}
	p.lint.apart(joined, func(bool) {})
}

// sees lets the caller see what has been done, if it is no body's goroutine.
func (l *lint) sees(body bool) {
	if !body || l.off != nil {
		race.Acquire(&l.world)
	}
}

// start makes the caller, r's body, come after what r has declared to come after.
func (r *linted) start() {
	r.follow(&r.born)
	for _, p := range r.preds {
		race.Acquire(&p.done)
		race.Acquire(&p.kids)
	}
	if r.loop || len(r.uses) == 0 {
		return
	}
	r.l.lock()
	clocks := r.before()
	r.l.unlock()
	for _, c := range clocks {
		race.Acquire(c)
	}
	r.l.lock()
	cut := r.cut()
	r.l.unlock()
	for _, c := range cut {
		race.Release(c)
	}
}

// end makes what the caller, r's body or the end of one of its events, has done come before what waits for it.
func (r *linted) end(t *Task) {
	race.Release(&r.done)
	race.Release(&r.l.world)
	for p := range sharesOf(t.more).All() {
		if p.c != nil {
			race.Release(p.c)
		}
	}
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

// eventEnds notes that the caller ends an event of t, r's task.
func (r *linted) eventEnds(t *Task) {
	race.Release(&r.born) // OnReady's events come before the body
	r.end(t)
}

// waited notes that the caller, the body of r's task, has waited for all its children.
func (r *linted) waited() {
	r.follow(&r.kids)
	r.forgets()
}

// forgets is forget for a caller without the lock.
func (r *linted) forgets() {
	if !r.off() {
		r.l.lock()
		r.forget()
		r.l.unlock()
	}
}

// joined notes that the caller has waited for the body of r's task; all: and for what is below it.
func (r *linted) joined(all bool) {
	r.follow(&r.done)
	if all {
		r.follow(&r.kids)
	}
}

// lintLoop finds the order of the tasks of a recorded loop.
func (r *replay) lintLoop(t *Task) {
	if t.more.linted.off() {
		return
	}
	before := make([][]int32, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		for _, to := range r.next[p.from:p.to] {
			before[to] = append(before[to], int32(i))
		}
	}
	for i := range r.tasks {
		x := r.parts[i].task.more.linted
		x.preds = append(x.preds, x) // itself, in the round before
		for _, k := range before[i] {
			if r.parts[k].task != nil {
				x.preds = append(x.preds, r.parts[k].task.more.linted)
				continue
			}
			for _, j := range before[k] { // a joint
				x.preds = append(x.preds, r.parts[j].task.more.linted)
			}
		}
	}
}
