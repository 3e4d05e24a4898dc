// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"runtime/debug"
	"sync"

	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/probe"
	"weft/task/internal/stuck"
)

// callApart is callToldHere on a separate goroutine, which holds the slot meanwhile.
func (t *Task) callApart(p *probe.Probe) (err error) {
	outer, l := t.slot.outer, p.Lint
	t.slot.Leave()
	l.Apart(func() {
		defer func() { // this goroutine may run the next body
			if s := t.slot; s != nil {
				s.Leave()
			} else if outer != nil {
				outer.slot.Leave()
			}
		}()
		t.slot.Take()
		err = t.callToldHere(p)
	}, func(returned bool) {
		l.Acquire(outer != nil)
		switch {
		case returned:
			t.slot.Take()
		case outer != nil:
			// the body has ended its goroutine: this one ends too, and with it the bodies beneath
			outer.slot.Take()
		}
	})
	return err
}

// onReadyApart calls t's OnReady on s, on a separate goroutine as for a body. panicked is the panic
// of OnReady, if there was one.
func (t *Task) onReadyApart(s *slot) (err, panicked error) {
	l, own := s.probe.Lint, t.more.noted.Linted
	if l.Off() {
		own.Start()
		defer t.lintEnds()
		return t.more.onReady(t), nil
	}
	s.Leave()
	l.Apart(func() {
		defer s.Leave()
		s.Take() // so that methods which need the body are refused here too
		defer func() {
			if r := recover(); r != nil { // here, where its stack is
				panicked = t.wrap(panicError(r), r, debug.Stack())
			}
			if err != nil || panicked != nil {
				// no body will run, and end, before the run ends
				t.lintEnds()
			}
		}()
		own.Start()
		err = t.more.onReady(t)
		own.Prepared()
	}, func(bool) { s.Take() })
	return err, panicked
}

// callTold is callHere with the calls of the observers before and after it.
func (t *Task) callTold(p *probe.Probe) error {
	if p.Lints() {
		return t.callApart(p)
	}
	err := t.callToldHere(p)
	p.Acquire(t.slot.outer != nil)
	return err
}

// callToldHere is callTold on this goroutine. The body may come back with another slot.
func (t *Task) callToldHere(p *probe.Probe) (err error) {
	if race.Lint {
		t.more.noted.Linted.Start() // first, so that what the other observers do is ordered too
	}
	if p.Ev != nil {
		t.tellBegins(p.Ev, event.Started)
	}
	if p.Keeps() {
		if err = p.Begins(t.notes()); err != nil {
			err = t.wrap(err, nil, nil)
		}
	}
	switch {
	case err != nil:
	case p.Ev != nil && p.Ev.Annotates():
		var outer *event.Origin
		if t.slot.outer != nil {
			outer = new(t.slot.outer.origin())
		}
		a := p.Ev.Annotate(t.run.ctx, t.origin(), outer)
		err = t.callHere()
		a.End()
	default:
		err = t.callHere()
	}
	t.tellEnded(t.slot.probe, err != nil)
	return err
}

// callsBody is the code of callHere, the only function that calls bodies. The compiler does not
// inline callHere, since it recovers.
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

// goexit ends t when its body has ended the goroutine. The bodies beneath it on the stack end in
// the same way, one after the other; the last one hands the slot over.
func (t *Task) goexit() {
	if t.slot.probe != nil {
		t.tellEnded(t.slot.probe, true)
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

// tellBegins tells lint mode that the tasks of r, a recorded loop that is about to start, are
// ordered by its graph.
func (r *replay) tellBegins(p *probe.Probe) {
	if !p.Lints() {
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
		x := r.parts[i].task.more.noted.Linted
		x.Follows(x) // itself, in the round before
		for _, k := range before[i] {
			tasks := []int32{k}
			if r.parts[k].task == nil { // a joint
				tasks = before[k]
			}
			for _, j := range tasks {
				x.Follows(r.parts[j].task.more.noted.Linted)
			}
		}
	}
}
