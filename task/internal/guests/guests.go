// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package guests lists the goroutines that run a user's function for a run without holding a slot:
// in Blocking, and in the callbacks of detached tasks. The run is not over before that function
// returns.
package guests

import (
	"sync"

	"weft/internal/race"
	"weft/task/internal/sched"
)

// Guests lists the guests of one runtime. The zero value is empty. A goroutine enters and finds
// only itself, so an entry that it finds is true.
//
// Enter and Leave take constant time. Find takes time in proportion to the list of a shard; only
// Close, and spawns while Close waits, call it.
type Guests struct {
	shards [64]shard
}

type shard struct {
	mu    sync.Mutex
	first *Guest // the newest. +checklocks:mu
	_     [64]byte
}

// A Guest is a goroutine in a user's function. It is in a list and not in a map: in lint mode the
// race detector sees Go's maps.
type Guest struct {
	g    uintptr
	Op   string // the call that has been given the function
	Task any    // the task that has made this call; nil if none

	prev, next *Guest // guarded by the shard's mu
}

func (x *Guests) shard(g uintptr) *shard { return &x.shards[(g>>7^g>>17)%uintptr(len(x.shards))] }

// Enter notes that the caller is from now on in a function of task, which was given to op.
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

// Leave ends Enter.
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

// Find returns the entry that the caller has made last; nil if none, or if goroutines are not
// distinguished on this machine.
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

// Any returns any guest; nil if there is none. It is for tests.
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
