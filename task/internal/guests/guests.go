// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package guests knows the goroutines that run a function of the user's for a run without holding a
// slot: in Blocking, and in the callbacks of detached tasks. The run is not over before that
// function returns.
package guests

import (
	"sync"

	"weft/internal/race"
	"weft/task/internal/sched"
)

// Guests are those of one runtime. The zero value has none. A goroutine enters and looks for itself
// only, so what is found is true.
//
// To enter and to leave take constant time. To look takes as long as the list of a shard is: that
// is for Close, and for what is spawned while Close waits.
type Guests struct {
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex
	first *Guest // the newest. +checklocks:mu
	_     [64]byte
}

// A Guest is a goroutine in a function of the user's. It is in a list and not in a map: the race
// detector sees Go's maps in lint mode.
type Guest struct {
	g    uintptr
	Op   string // what the function was given to
	Task any    // of which task; nil if of none

	prev, next *Guest // guarded by the shard's mu
}

func (x *Guests) shard(g uintptr) *shard { return &x.shards[(g>>7^g>>17)%uintptr(len(x.shards))] }

// Enter notes that the caller is in a function of a task's from now on, which was given to op.
func (x *Guests) Enter(op string, task any) *Guest {
	race.Disable()
	defer race.Enable()
	e := &Guest{g: sched.Goid(), Op: op, Task: task}
	s := x.shard(e.g)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.next = s.first; e.next != nil {
		e.next.prev = e
	}
	s.first = e
	return e
}

// Leave takes Enter back.
func (x *Guests) Leave(e *Guest) {
	race.Disable()
	defer race.Enable()
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

// Find returns what the caller has entered last; nil if nothing, or if goroutines are not told
// apart on this machine.
func (x *Guests) Find() *Guest {
	g := sched.Goid()
	if g == 0 {
		return nil
	}
	race.Disable()
	defer race.Enable()
	s := x.shard(g)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.first
	for e != nil && e.g != g {
		e = e.next
	}
	return e
}

// Any returns some goroutine that is in a function now; nil if there is none. It is for tests.
func (x *Guests) Any() *Guest {
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		first := s.first
		s.mu.Unlock()
		if first != nil {
			return first
		}
	}
	return nil
}
