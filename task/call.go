// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"runtime/debug"
	"sync"

	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/stuck"
)

// callApart is callHere on a goroutine of the body's own, which holds the slot meanwhile.
func (p *probe) callApart(t *Task) (err error) {
	outer, l := t.slot.outer, p.lint
	t.slot.Leave()
	l.Apart(func() {
		defer func() { // this goroutine's identity can be the next one's
			if s := t.slot; s != nil {
				s.Leave()
			} else if outer != nil {
				outer.slot.Leave()
			}
		}()
		t.slot.Take()
		err = p.callHere(t)
	}, func(returned bool) {
		l.Sees(outer != nil)
		switch {
		case returned:
			t.slot.Take()
		case outer != nil: // the body has ended its goroutine: so does this one, and with it the bodies beneath
			outer.slot.Take()
		}
	})
	return err
}

// onReadyApart calls t's OnReady on s as a body is called. If it panics, that is what it returns second.
func (p *probe) onReadyApart(t *Task, s *slot) (err, panicked error) {
	l, own := p.lint, t.more.linted
	if l.Off() {
		own.Start()
		defer p.lintEnds(t)
		return t.more.onReady(t), nil
	}
	s.Leave()
	l.Apart(func() {
		defer s.Leave()
		s.Take() // what a task may not call is refused here too
		defer func() {
			if r := recover(); r != nil { // here, where its stack is
				panicked = t.wrap(panicError(r), r, debug.Stack())
			}
			if err != nil || panicked != nil { // there will be no body whose end comes before that of the run
				p.lintEnds(t)
			}
		}()
		own.Start()
		err = t.more.onReady(t)
		own.Prepared()
	}, func(bool) { s.Take() })
	return err, panicked
}

// callJoined calls f, which comes after all that the task of n and those below it have done.
func (p *probe) callJoined(n noted, f func()) {
	joined := func() {
		p.joined(n, true)
		f()
	}
	if n.linted == nil || p.lint.Off() {
		joined()
		return
	}
	p.lint.Apart(joined, func(bool) {})
}

// lintEnds makes what t's body or one of its events has done come before what waits for t.
func (p *probe) lintEnds(t *Task) {
	for s := range sharesOf(t.more).All() {
		if s.c != nil {
			race.Release(s.c)
		}
	}
	t.more.linted.End()
}

// call runs t's body, with what goes before and after it.
func (p *probe) call(t *Task) error {
	if race.Lint && !p.lint.Off() {
		return p.callApart(t)
	}
	err := p.callHere(t)
	p.sees(t.slot.outer != nil)
	return err
}

// callHere is call on this goroutine. The body may come back with another slot.
func (p *probe) callHere(t *Task) (err error) {
	if race.Lint {
		t.more.linted.Start() // first: what the others do, the body's goroutine does
	}
	if p.ev != nil {
		p.begins(t, event.Started)
	}
	if p.watch != nil {
		t.more.watched.Begins()
	}
	if p.audit != nil {
		if err = t.more.audited.Begins(); err != nil {
			err = t.wrap(err, nil, nil)
		}
	}
	switch {
	case err != nil:
	case p.ev != nil && p.ev.Annotates():
		var outer *event.Origin
		if t.slot.outer != nil {
			o := t.slot.outer.origin()
			outer = &o
		}
		a := p.ev.Annotate(t.run.ctx, t.origin(), outer)
		err = t.callHere()
		a.End()
	default:
		err = t.callHere()
	}
	t.slot.probe.ended(t, err != nil)
	return err
}

// onReady calls t's OnReady. A panic passes on, or is what it returns second.
func (p *probe) onReady(t *Task, s *slot) (err, panicked error) {
	if race.Lint {
		return p.onReadyApart(t, s)
	}
	return t.more.onReady(t), nil
}

// callsBody is the code of callHere, the only function that calls bodies. Compilers do not put it into others, since
// it recovers.
var callsBody = sync.OnceValue(func() stuck.Code { return stuck.CodeAt(reflect.ValueOf((*Task).callHere).Pointer()) })

// callHere runs t's body and turns its panic into an error.
func (t *Task) callHere() (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			err = t.wrap(panicError(r), r, debug.Stack())
			return
		}
		t.goexit()
	}()
	err = t.fn(t)
	if err == nil && t.node.Flags&flagLongSpawn != 0 {
		t.combineAll()
	}
	returned = true
	if err != nil {
		err = t.wrap(err, nil, nil)
	}
	return err
}

// goexit ends t when its body has ended the goroutine. The bodies beneath it on
// the stack end in the same way, one after the other; the last one hands the slot on.
func (t *Task) goexit() {
	if t.slot.probe != nil {
		t.slot.probe.ended(t, true)
	}
	s := t.leave(t.slot.outer)
	t.run.fail(t.wrap(errGoexit, nil, nil))
	last := s.cur.load() == nil
	s.bodyOver(t)
	s.settle(false)
	if last {
		s.handOver()
	}
}

// loopBegins tells that the tasks of r, the recorded loop that is about to start, come in the order of its graph.
func (p *probe) loopBegins(r *replay) {
	if !race.Lint || p.lint.Off() {
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
		x.Follows(x) // itself, in the round before
		for _, k := range before[i] {
			if r.parts[k].task != nil {
				x.Follows(r.parts[k].task.more.linted)
				continue
			}
			for _, j := range before[k] { // a joint
				x.Follows(r.parts[j].task.more.linted)
			}
		}
	}
}
