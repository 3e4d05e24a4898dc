// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"slices"

	"weft/internal/event"
	"weft/observe/internal/graph"
)

// Edges follow from what tasks have declared, by the rules of package deps. An access has a read and a write token, which come to it by the chain of its object, among
// the children of one task in the order of their spawns; see deps/README.md, "The picture". Here is what each of them waits for, at whatever time things happen:
//
//	may read    that the access before passes read, else the parent's access may read
//	may write   that the access before is over, else the parent's access may write
//	may join    of a group: that the one before may join, if it is of the same group; else may write
//	passes read for a reader: may read. Else its task has given it up, the last access of the task's children passes read, and may read
//	is over     its task has given it up, the last access of the task's children is over, and may write
//
// A task starts when each of its strong accesses may read, join or write, by its mode. To give an access up is to end: the body and its events, and all descendants
// if the task has the attribute Wait. So a task waits for the ends that are found on the way from its accesses along these lines, and each is an edge. The way
// needs not go on where an edge that was found implies the rest: a strong access of a task that is waited for has had what it needed.
//
// Ranges are cut where the accesses to them begin and end, so that each piece has a chain of its own, and the way along it is for the bytes in question.

// modeIn and so on are what event.Modes has at these places.
const (
	modeIn = iota
	modeOut
	modeInOut
	modeConcurrent
	modeReduce
	modeCommutative
)

// use is all that one task declares for an object, or for a piece of memory.
type use struct {
	task   *live
	dom    *domain // that it is in: of the task's parent
	lo, hi uintptr
	object bool // known by its address
	mode   int
	weak   bool
	holds  bool // the task has the object for itself while it runs
	held   bool // one above it has: Commutative is InOut then
	prev   *use // before it in its domain
}

// cell is an object, or a piece of memory, of a domain.
type cell struct {
	lo, hi uintptr
	last   *use
}

// domain is the children of one task.
type domain struct {
	parent  *live // nil for the tasks whose parent is not known
	objects map[uintptr]*cell
	pieces  []*cell // of ranges, in order
}

// edger finds edges.
type edger struct {
	domains  map[uint64]*domain
	uses     map[*live][]*use
	children map[uint64][]*live
	seen     map[[2]uint64]bool
	edges    []graph.Edge

	to  *live // the task whose edges are looked for
	was map[step]bool
}

// step is a place on the way.
type step struct {
	u      *use
	what   what
	lo, hi uintptr
}

type what uint8

const (
	mayRead what = iota
	mayWrite
	mayJoin
	passesRead
	over
)

// edges returns the edges among tasks, which are in the order in which they were spawned.
func edges(tasks []*live) []graph.Edge {
	e := &edger{domains: map[uint64]*domain{}, uses: map[*live][]*use{}, children: map[uint64][]*live{}, seen: map[[2]uint64]bool{}}
	byID := make(map[uint64]*live, len(tasks))
	for _, t := range tasks {
		byID[t.id] = t
	}
	for _, t := range tasks {
		if t.parent != 0 && byID[t.parent] != nil {
			e.edges = append(e.edges, graph.Edge{From: t.parent, To: t.id, Kind: graph.Child})
			e.children[t.parent] = append(e.children[t.parent], t)
		}
		d := e.domains[t.parent]
		if d == nil {
			d = &domain{parent: byID[t.parent], objects: map[uintptr]*cell{}}
			e.domains[t.parent] = d
		}
		e.declare(d, t)
	}
	rounds := map[*recorded]*live{} // of a recorded task, the last one so far
	for _, t := range tasks {
		e.to, e.was = t, nil
		if t.loop != nil {
			if before := rounds[t.loop]; before != nil { // it never runs beside itself
				e.edge(before.id)
				e.descendants(before)
			}
			rounds[t.loop] = t
		}
		for _, u := range e.uses[t] {
			if u.weak || u.mode == modeReduce {
				continue
			}
			e.follow(step{u, u.needs(), u.lo, u.hi})
		}
		if by := byID[t.by]; by != nil && t.by != t.parent && (len(t.declared()) == 0 || t.loop != nil && len(by.declared()) == 0) {
			e.edge(t.by) // a recorded loop's condition, or the like: what has no accesses
		}
	}
	return e.edges
}

// declare puts the accesses of t, the newest child in d, into their chains.
func (e *edger) declare(d *domain, t *live) {
	takes := slices.ContainsFunc(t.declared(), func(a access) bool { return a.mode == modeCommutative && !a.weak })
	for _, a := range t.declared() {
		for _, c := range d.pick(a) {
			u := &use{task: t, dom: d, lo: c.lo, hi: c.hi, object: c == d.objects[c.lo], mode: int(a.mode), weak: a.weak && !takes, prev: c.last}
			if u.mode == modeReduce {
				u.weak = true
			}
			if old := c.last; old != nil && old.task == t { // combined
				u.prev, u.weak = old.prev, u.weak && old.weak
				if u.mode != old.mode {
					u.mode = modeInOut
				}
				e.uses[t] = slices.DeleteFunc(e.uses[t], func(x *use) bool { return x == old && x.lo == u.lo && x.hi == u.hi })
			}
			for _, up := range e.up(step{u: u, lo: u.lo, hi: u.hi}) {
				u.held = u.held || up.u.holds || up.u.held
			}
			u.holds = u.mode == modeCommutative && !u.weak && !u.held
			c.last = u
			e.uses[t] = append(e.uses[t], u)
		}
	}
}

// needs is what a strong access waits for.
func (u *use) needs() what {
	switch {
	case u.mode == modeIn:
		return mayRead
	case u.isGroup():
		return mayJoin
	}
	return mayWrite
}

func (u *use) isGroup() bool { return u.mode == modeConcurrent || u.mode == modeCommutative && !u.held }

// joins: u and the one before it belong to one group.
func (u *use) joins(before *use) bool { return before.mode == u.mode && u.isGroup() }

// implied: since u's task has started, u has what it may.
func (u *use) implied(w what) bool {
	switch {
	case u.weak:
		return false
	case u.mode == modeIn:
		return w == mayRead
	case u.isGroup():
		return w == mayJoin
	}
	return true
}

// edge adds one to the task in question.
func (e *edger) edge(from uint64) {
	key := [2]uint64{from, e.to.id}
	if from == e.to.id || e.seen[key] {
		return
	}
	e.seen[key] = true
	e.edges = append(e.edges, graph.Edge{From: from, To: e.to.id, Kind: graph.Order})
}

// follow follows the ways from a place, and adds the edges that it finds.
func (e *edger) follow(first step) {
	todo := []step{first}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if e.was[s] {
			continue
		}
		if e.was == nil {
			e.was = map[step]bool{}
		}
		e.was[s] = true
		u := s.u
		next := func(u *use, w what) { todo = append(todo, step{u, w, max(s.lo, u.lo), min(s.hi, u.hi)}) }
		switch s.what {
		case mayRead, mayWrite:
			if u.prev != nil {
				w := over
				if s.what == mayRead {
					w = passesRead
				}
				next(u.prev, w)
				break
			}
			for _, up := range e.up(s) {
				if !up.u.holds && !up.u.implied(s.what) {
					todo = append(todo, step{up.u, s.what, up.lo, up.hi})
				}
			}
		case mayJoin:
			switch {
			case u.prev != nil && u.joins(u.prev):
				next(u.prev, mayJoin)
			case u.prev != nil:
				next(u.prev, over)
			}
			if u.prev != nil {
				break
			}
			for _, up := range e.up(s) {
				w := mayWrite
				if u.joins(up.u) {
					w = mayJoin
				}
				if !up.u.holds && !up.u.implied(w) {
					todo = append(todo, step{up.u, w, up.lo, up.hi})
				}
			}
		case passesRead:
			if u.mode == modeIn {
				next(u, mayRead)
				break
			}
			todo = append(todo, e.givenUp(s, mayRead)...)
		case over:
			todo = append(todo, e.givenUp(s, mayWrite)...)
		}
	}
}

// givenUp is what passesRead and over have in common: the task has given the access up, its children have, and the tokens have come.
func (e *edger) givenUp(s step, need what) (next []step) {
	u := s.u
	e.edge(u.task.id)
	if u.task.flags&event.SpawnedWait != 0 {
		e.descendants(u.task)
	}
	gap := true
	if d := e.domains[u.task.id]; d != nil {
		covered := uintptr(0)
		for _, c := range d.meets(u.object, s.lo, s.hi) {
			if c.last == nil {
				continue
			}
			lo, hi := max(s.lo, c.lo), min(s.hi, c.hi)
			next = append(next, step{c.last, s.what, lo, hi})
			if c == d.objects[c.lo] {
				if u.object {
					gap = false
				}
			} else {
				covered += hi - lo
			}
		}
		if covered == s.hi-s.lo {
			gap = false
		}
	}
	if (gap || u.holds) && !u.implied(need) {
		next = append(next, step{u, need, s.lo, s.hi})
	}
	return next
}

func (e *edger) descendants(t *live) {
	for _, c := range e.children[t.id] {
		e.edge(c.id)
		e.descendants(c)
	}
}

// up returns the parent's accesses to the same memory, as far as it is in question.
func (e *edger) up(s step) (list []step) {
	if s.u.dom.parent == nil {
		return nil
	}
	for _, p := range e.uses[s.u.dom.parent] {
		switch {
		case p.object && s.u.object:
			if p.lo == s.u.lo {
				list = append(list, step{u: p, lo: s.lo, hi: s.hi})
			}
		case p.lo < s.hi && s.lo < p.hi:
			list = append(list, step{u: p, lo: max(s.lo, p.lo), hi: min(s.hi, p.hi)})
		}
	}
	return list
}

// pick returns the objects and pieces that an access is to, and makes them if they are new.
func (d *domain) pick(a access) []*cell {
	lo, hi := a.lo, a.lo+max(a.size, 1)
	if !a.rng {
		o := d.objects[lo]
		if o == nil {
			o = &cell{lo: lo, hi: hi}
			d.objects[lo] = o
		}
		return append(d.cut(lo, hi, false), o)
	}
	return append(d.cut(lo, hi, true), d.overlapped(lo, hi)...)
}

// cut returns the pieces that make up lo to hi, as far as there are any; with fill, new ones where there are none.
func (d *domain) cut(lo, hi uintptr, fill bool) (list []*cell) {
	if len(d.pieces) == 0 && !fill {
		return nil
	}
	var pieces []*cell
	at := lo
	hole := func(to uintptr) {
		if fill && at < to {
			p := &cell{lo: at, hi: to}
			pieces, list = append(pieces, p), append(list, p)
		}
	}
	for _, p := range d.pieces {
		if p.hi <= lo || p.lo >= hi {
			if p.lo >= hi {
				hole(hi)
				at = hi
			}
			pieces = append(pieces, p)
			continue
		}
		hole(p.lo)
		if p.lo < lo {
			pieces = append(pieces, &cell{p.lo, lo, p.last})
		}
		mid := &cell{max(p.lo, lo), min(p.hi, hi), p.last}
		pieces, list = append(pieces, mid), append(list, mid)
		if p.hi > hi {
			pieces = append(pieces, &cell{hi, p.hi, p.last})
		}
		at = max(at, mid.hi)
	}
	hole(hi)
	slices.SortFunc(pieces, func(a, b *cell) int { return cmp.Compare(a.lo, b.lo) })
	d.pieces = pieces
	return list
}

// meets returns the objects and pieces of d that an access of the parent covers.
func (d *domain) meets(object bool, lo, hi uintptr) (list []*cell) {
	if object {
		if o := d.objects[lo]; o != nil {
			list = append(list, o)
		}
	}
	for _, p := range d.pieces {
		if p.lo < hi && lo < p.hi {
			list = append(list, p)
		}
	}
	if !object {
		list = append(list, d.overlapped(lo, hi)...)
	}
	return list
}

// overlapped returns the objects that a range has bytes of.
func (d *domain) overlapped(lo, hi uintptr) (list []*cell) {
	for _, o := range d.objects {
		if o.lo < hi && lo < o.hi {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *cell) int { return cmp.Compare(a.lo, b.lo) })
	return list
}
