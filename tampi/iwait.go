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

// A Completion is an operation that calls functions when it is complete: each exactly once, from
// any goroutine, and at once if it is complete already. *comm.Request is a Completion.
type Completion interface {
	OnDone(func(error))
}

// Iwait binds c to t and returns: t is not over, and its accesses are not released, until c is
// complete. If c is complete with an error, Iwait returns the error. Otherwise it returns nil, and
// a later error of c ends t's run. A nil c or a nil request is complete, like MPI's null request.
//
// Iwait is called by t's body, or by any goroutine while an event of t is pending.
func Iwait(t *task.Task, c Completion) error {
	if c == nil || c == (*comm.Request)(nil) {
		return nil
	}
	bind(t, c, event.BoundTo)
	return join(t, c)
}

// holder is the part of a task that a binding needs. Explorations have their own holder.
type holder interface {
	HoldFor(what any) (release func(error))
}

// join binds c to t, with the protocol of [binding].
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

// bind records that c is bound to t, or that t waits for c, if both are recorded.
func bind(t *task.Task, c Completion, how uint64) {
	if r, ok := c.(*comm.Request); ok && r.TraceID() != 0 && t.TraceID() != 0 {
		friend.EventsOfRequest(r).Put(event.Bound, r.TraceID(), t.TraceID(), how)
	}
}

// IwaitAll is Iwait for each of cs; it skips nil completions. It returns the joined errors of
// those that have failed already.
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

// binding joins a completion and a call of Iwait. Its state has two bits:
//
//	        complete adds its bit
//	 0 ────────────────────────────▶ complete
//	 │                                   │ Iwait finds the bit before it makes an event: returns err
//	 │ Iwait makes an event,             │
//	 │ adds bound, returns nil           │ Iwait has made an event: adds bound, ends the
//	 ▼                                   ▼ event, returns err
//	bound ───────────────────────▶ bound|complete
//	        complete adds its bit,
//	        ends the event with err
//
// An event costs more than a callback. So Iwait first calls OnDone, and makes an event only if the
// completion has not called back yet. Then each side adds its bit. The side that adds the second
// bit ends the event. So the event is ended once. The error of the completion is returned by Iwait
// or passed to the event: never both, and never neither.
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
