// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"

	"weft/internal/race"
	"weft/task/internal/sched"
)

// guests are the goroutines that run a function of the user's for a run without holding a slot: in Blocking, and in
// the callbacks of detached tasks. The run is not over before that function returns. A goroutine enters
// and looks for itself only, so an entry is true whenever it is found.
//
// To enter and to leave take constant time. To look takes as long as the list of a shard is: that is for Close, and for what is
// spawned while Close waits.
type guests struct {
	shards [64]guestShard
}

type guestShard struct {
	mu    sync.Mutex
	first *guest // the newest. +checklocks:mu
	_     [64]byte
}

// guest is a goroutine in a function of the user's. A list, not a map: the race detector sees Go's maps in lint mode.
type guest struct {
	g          uintptr
	op         string // what the function was given to
	t          *Task  // of which task; nil if of none
	prev, next *guest // guarded by the shard's mu
}

func (x *guests) shard(g uintptr) *guestShard { return &x.shards[(g>>7^g>>17)%uintptr(len(x.shards))] }

// enter notes that the caller is in a function of t's from now on, which was given to op.
func (x *guests) enter(op string, t *Task) *guest {
	race.Hide()
	defer race.Show()
	e := &guest{g: sched.Goid(), op: op, t: t}
	s := x.shard(e.g)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.next = s.first; e.next != nil {
		e.next.prev = e
	}
	s.first = e
	return e
}

// leave takes enter back.
func (x *guests) leave(e *guest) {
	race.Hide()
	defer race.Show()
	s := x.shard(e.g)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.next != nil {
		e.next.prev = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		s.first = e.next
	}
}

// find says what goroutine g, the caller, is in; "" if in nothing, or if goroutines are not told apart on this machine.
func (x *guests) find(g uintptr) string {
	if g == 0 {
		return ""
	}
	in := x.of(g)
	switch {
	case in == nil:
		return ""
	case in.t == nil:
		return in.op
	}
	return in.op + " of " + in.t.name() // not hidden: package fmt hands its memory from goroutine to goroutine
}

// of returns what goroutine g, the caller, has entered last; nil if nothing.
func (x *guests) of(g uintptr) *guest {
	race.Hide()
	defer race.Show()
	s := x.shard(g)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.first
	for e != nil && e.g != g {
		e = e.next
	}
	return e
}

// caller says in what of the runtime's the calling goroutine is, which Close would wait for; "" if in nothing that is known.
// ofRun: it belongs to a run, which is not over before the caller returns.
func (rt *Runtime) caller() (where string, ofRun bool) {
	s := rt.here()
	if s != nil && s.cur.load() != nil {
		return "a task", true
	}
	if where := rt.guests.find(sched.Goid()); where != "" {
		return where, true
	}
	switch {
	case s == nil:
		return "", false
	case s.polling:
		return "a function of Poll", false
	}
	return "an OnReady", true
}
