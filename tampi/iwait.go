// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi

import (
	"errors"

	"weft/comm"
	"weft/internal/event"
	"weft/internal/friend"
	"weft/internal/race"
	"weft/internal/xatomic"
	"weft/task"
)

// A Completion calls back when it is complete: exactly once for each function, from
// any goroutine, at once if it is complete already. A *comm.Request is one.
type Completion interface {
	OnDone(func(error))
}

// Iwait binds c to t and returns: t is not over, and its accesses are not released, until c is
// complete. Nil is returned for what is bound, and for what is complete without an error. If c is
// complete with an error, that is returned; an error that comes later ends t's run by itself.
// Nothing, or a nil request, is complete, as MPI's null request is.
//
// Iwait is called by t's body, or by any goroutine while an event of t is pending.
func Iwait(t *task.Task, c Completion) error {
	if c == nil || c == (*comm.Request)(nil) {
		return nil
	}
	bind(t, c, event.BoundTo)
	return join(t, c)
}

// holder is what a binding needs of a task, so that an exploration can stand in for one.
type holder interface {
	HoldFor(what any) (release func(error))
}

// join has t not be over before c is complete. The order is this, since an event costs more than
// a callback: c is asked to call back; if it has not done so, t gets an event. Both sides add
// their bit to one word, and the one that finds the other's bit ends the event. So the event is
// ended once, and c's error is returned or given to the event, never both and never neither.
func join(t holder, c Completion) error {
	b := &binding{}
	c.OnDone(b.complete)
	if b.state.Load() != 0 {
		race.Acquire(&b.state)
		return b.err
	}
	b.release = t.HoldFor(c)              //bug:start
	if b.state.Add(bound)&complete != 0 { //bug:start
		race.Acquire(&b.state)
		b.release(nil)
		return b.err
	}
	return nil
}

// bind records that c is bound to t, or waited for by it, if both are recorded.
func bind(t *task.Task, c Completion, how uint64) {
	if r, ok := c.(*comm.Request); ok && r.TraceID() != 0 && t.TraceID() != 0 {
		friend.EventsOfRequest(r).Put(event.Bound, r.TraceID(), t.TraceID(), how)
	}
}

// IwaitAll is Iwait for each of cs; nil ones are left out. It returns the errors of those
// that have failed already, joined.
func IwaitAll[C Completion](t *task.Task, cs ...C) error {
	var errs []error
	for _, c := range cs {
		if any(c) == any(*new(C)) {
			continue
		}
		if err := Iwait(t, c); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// binding joins a completion and Iwait, whichever is first.
type binding struct {
	state   xatomic.Uint32
	err     error       // written before complete is added
	release func(error) // written before bound is added
}

const (
	bound = 1 << iota
	complete
)

func (b *binding) complete(err error) {
	b.err = err //bug:complete
	race.Release(&b.state)
	if b.state.Add(complete)&bound != 0 { //bug:complete
		b.release(err)
	}
}
