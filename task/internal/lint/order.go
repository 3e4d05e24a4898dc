// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"sync"

	"weft/internal/chain"
	"weft/internal/order"
	"weft/internal/race"
)

// Package order knows which task waits for which. This file has the clocks of its entries, the
// accesses of tasks. Neighbours that go together form a run, which has one clock; each of the run's
// tasks releases it. One clock is right for every later task, since the run's tasks have the same
// bytes.

// spans are the clocks of a Commutative group. One task of the group at a time has the memory, in
// any order. Each comes after what the others have done so far with its bytes.
type spans struct{ list []span }

// enter puts r's task and its accesses into the tree. A task of a recorded loop has no accesses
// there: the loop's graph orders the tasks, and the tree only the children of each.
// +checklocks:r.l.mu
func (r *Record) enter(accs []chain.Access) {
	if r.parent == nil {
		r.task = new(order.Task)
		return
	}
	if r.loop {
		accs = nil
	}
	r.task = r.parent.task.Child(order.List(accs))
	r.task.Mark = r
	for _, u := range r.task.Entries {
		if u.Run.Mark == nil {
			u.Run.Mark = new(race.Clock)
		}
	}
}

// before returns the clocks of everything that r's task waits for. The caller then acquires them
// and runs r's body. +checklocks:r.l.mu
func (r *Record) before() (clocks []*race.Clock) {
	r.task.Before(func(u *order.Entry, lo, hi uintptr) bool {
		from := u.Task.Mark.(*Record)
		clocks = append(clocks, clockOf(u))
		for _, p := range from.parts {
			if p.of == u && p.meets(lo, hi) {
				clocks = append(clocks, p.out)
			}
		}
		if from.wait {
			clocks = append(clocks, &from.kids)
		}
		return true
	})
	for _, u := range r.task.Entries {
		eachGroup(u, func(s *spans) {
			for _, x := range s.list {
				if x.meets(u.Lo, u.Hi) {
					clocks = append(clocks, x.out)
				}
			}
		})
	}
	r.task.Start()
	return clocks
}

func clockOf(u *order.Entry) *race.Clock { return u.Run.Mark.(*race.Clock) }

// after returns the clocks of everything that r's body may use and has not given up.
// +checklocks:r.l.mu
func (r *Record) after() (clocks []*race.Clock) {
	for _, u := range r.task.Entries {
		if !u.UsesMemory() {
			continue
		}
		split := false // into parts
		for _, p := range r.parts {
			if split = split || p.of == u; p.of == u && p.held {
				clocks = exclusive(append(clocks, p.out), u, p.lo, p.hi)
			}
		}
		if !split {
			clocks = exclusive(append(clocks, clockOf(u)), u, u.Lo, u.Hi)
		}
	}
	for p := r.parent; p != nil; p = p.parent {
		if !p.wait {
			continue
		}
		for _, u := range p.task.Entries {
			clocks = exclusive(clocks, u, u.Lo, u.Hi)
		}
	}
	return clocks
}

// exclusive adds the clocks that are released for the other tasks of Commutative groups, for bytes
// of u: if u is in such a group, or an ancestor's access is.
func exclusive(clocks []*race.Clock, u *order.Entry, lo, hi uintptr) []*race.Clock {
	add := func(u *order.Entry, lo, hi uintptr) {
		eachGroup(u, func(s *spans) { clocks = append(clocks, s.clock(lo, hi)) })
	}
	if add(u, lo, hi); u.Held {
		u.Above(lo, hi, add)
	}
	return clocks
}

// eachGroup calls f for the groups in which u holds the memory exclusively.
func eachGroup(u *order.Entry, f func(*spans)) {
	if !u.Holds() {
		return
	}
	for _, g := range u.Run.ExclusionSets {
		if g.Mark == nil {
			g.Mark = new(spans)
		}
		f(g.Mark.(*spans))
	}
}

// clock returns the clock for exactly these bytes.
func (s *spans) clock(lo, hi uintptr) *race.Clock {
	for _, x := range s.list {
		if x.lo == lo && x.hi == hi {
			return x.out
		}
	}
	s.list = append(s.list, span{lo, hi, new(race.Clock)})
	return s.list[len(s.list)-1].out
}

// forget removes r's children from the tree. over: r is over, and is removed as well, if the clocks
// of the runs of its accesses suffice for later tasks: if r has given up no parts, and later tasks
// do not wait for all its descendants.
func (r *Record) forget(over bool) {
	if r.off() {
		return
	}
	r.l.lock()
	defer r.l.unlock()
	r.task.Forget()
	if over && len(r.parts) == 0 && !r.wait {
		r.task.Leave()
	}
}

// Release notes that the body of r's task gives an access up. What it does with the object later is
// ordered before nothing.
func (r *Record) Release(a chain.Access) {
	if r.off() {
		race.Release(&r.l.world)
		return
	}
	r.l.lock()
	clocks := r.giveUp(a)
	r.l.unlock()
	race.Release(&r.l.world)
	for _, c := range clocks {
		race.Release(c)
	}
}

// giveUp takes the memory of a out of the memory that r's task holds, and returns the clocks that
// r's body must release for it. +checklocks:r.l.mu
func (r *Record) giveUp(a chain.Access) (clocks []*race.Clock) {
	r.task.Find(order.Of(a), func(u *order.Entry, lo, hi uintptr) {
		if u.DeclaredWeak {
			return
		}
		if !slices.ContainsFunc(r.parts, func(p part) bool { return p.of == u }) {
			r.parts = append(r.parts, part{span{u.Lo, u.Hi, clockOf(u)}, u, true})
		}
		for i, p := range r.parts {
			if p.of == u && p.held && p.meets(lo, hi) {
				lo, hi := max(lo, p.lo), min(hi, p.hi)
				clocks = exclusive(append(clocks, r.split(i, lo, hi)), u, lo, hi)
			}
		}
	})
	return clocks
}

// split notes that the bytes from lo to hi of r's part i are given up, and returns their clock.
// What the task does later with the rest is ordered only before tasks that use the rest.
// +checklocks:r.l.mu
func (r *Record) split(i int, lo, hi uintptr) *race.Clock {
	p := r.parts[i]
	out, rest := new(race.Clock), p.out
	switch all := clockOf(p.of); {
	case lo == p.of.Lo && hi == p.of.Hi:
		out = all
	case rest == all:
		rest = new(race.Clock)
	}
	r.parts[i] = part{span{lo, hi, out}, p.of, false}
	for _, left := range [...]span{{p.lo, lo, rest}, {hi, p.hi, rest}} {
		if left.lo < left.hi {
			r.parts = append(r.parts, part{left, p.of, true})
		}
	}
	return out
}

// The race detector reports a race only if it still knows the line of the first of the two
// accesses. It forgets the lines of a goroutine after some 64 later ends of goroutines, whatever
// GORACE says. Each body has its own goroutine. So a race between a task and its successor in the
// next sweep over a few hundred blocks would never be reported. So the goroutines of the last kept
// bodies stay, asleep.

// kept is how many bodies that are over the race detector still knows. Each costs the memory of its
// history: 8 bytes for an access, at most 2.3 MB. The detector has room for some 8,000 goroutines.
const kept = 256

// stayed are the goroutines that stay, of all runtimes: the goroutines of the last bodies to end.
var stayed struct {
	mu   sync.Mutex
	ring [kept]stayedBody // +checklocks:mu
	next int              // the oldest in ring. +checklocks:mu
}

// stayedBody is a goroutine that stays.
type stayedBody struct {
	l   *Lint
	end chan struct{} // closed to end it
}

// keep returns when kept other bodies have ended, or l's runtime is closed. The caller is a body's
// goroutine at its end. Precondition: race.Disable.
func (l *Lint) keep() {
	me := stayedBody{l, make(chan struct{})}
	stayed.mu.Lock()
	if l.closed {
		stayed.mu.Unlock()
		return
	}
	oldest := stayed.ring[stayed.next]
	stayed.ring[stayed.next] = me
	stayed.next = (stayed.next + 1) % kept
	stayed.mu.Unlock()
	if oldest.l != nil {
		close(oldest.end)
	}
	l.asleep.Sleep()
	<-me.end
	l.asleep.Wake()
}

// Close ends the goroutines that stay of l's runtime.
func (l *Lint) Close() {
	race.Disable()
	stayed.mu.Lock()
	l.closed = true
	for i, b := range stayed.ring {
		if b.l == l {
			close(b.end)
			stayed.ring[i] = stayedBody{}
		}
	}
	stayed.mu.Unlock()
	race.Enable()
}
