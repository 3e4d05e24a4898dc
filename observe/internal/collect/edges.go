// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"slices"

	"weft/observe/internal/graph"
)

// Edges follow from what tasks have declared, by the rules of package deps:
//
//   - For each object in a domain (the children of one task) the accesses form groups, in the order in which the tasks were spawned:
//     neighbours that are all In, all Concurrent, all Reduce or all Commutative are one group, any other access is a group of its own.
//     Each member of a group waits for all members of the one before.
//   - The first group of a domain waits for what the parent's own access to the object waits for. It matters if that is weak;
//     else the parent has waited for it already.
//   - Who waits for a task also waits for the last group of its children on the object, and of theirs.
//
// Ranges are cut where the accesses to them begin and end, and each piece is an object. An access to an object is also one
// to the pieces of ranges that it is in.

// modeIn and so on are what event.Modes has at these places.
const (
	modeIn = iota
	modeOut
	modeInOut
	modeConcurrent
	modeReduce
	modeCommutative
)

// member is one access in a group.
type member struct {
	task *live
	acc  access
}

// object is the groups of one object that still matter.
type object struct {
	lo, hi    uintptr
	mode      int // of the members of now, if that is a group; else -1
	now, last []member
}

// enter adds an access, and returns those that it waits for.
func (o *object) enter(m member) []member {
	mode := -1
	switch m.acc.mode {
	case modeIn, modeConcurrent, modeReduce, modeCommutative:
		mode = int(m.acc.mode)
	}
	if mode < 0 || mode != o.mode || len(o.now) == 0 {
		o.last, o.now = o.now, nil
		o.mode = mode
	}
	o.now = append(o.now, m)
	return o.last
}

// copy is for a piece that is cut off.
func (o *object) copy(lo, hi uintptr) *object {
	return &object{lo: lo, hi: hi, mode: o.mode, now: slices.Clone(o.now), last: slices.Clone(o.last)}
}

// domain is the children of one task.
type domain struct {
	parent  *live
	objects map[uintptr]*object
	pieces  []*object // of ranges, in order
}

// reach is what a weak access waits for.
type reach struct {
	lo, hi uintptr
	list   []member
}

// edger finds edges.
type edger struct {
	domains map[uint64]*domain
	seen    map[[2]uint64]bool
	edges   []graph.Edge
	before  map[*live][]reach // what the weak accesses of a task wait for
}

// edges returns the edges among tasks, which are in the order in which they were spawned.
func edges(tasks []*live) []graph.Edge {
	e := &edger{domains: map[uint64]*domain{}, seen: map[[2]uint64]bool{}, before: map[*live][]reach{}}
	byID := make(map[uint64]*live, len(tasks))
	for _, t := range tasks {
		byID[t.id] = t
	}
	// A task may be spawned before the children of the task that it waits for: so waits are noted, and resolved when all domains are whole.
	type wait struct {
		t    *live
		list []member
	}
	var waits []wait
	for _, t := range tasks {
		if t.parent != 0 && byID[t.parent] != nil {
			e.edge(t.parent, t.id, graph.Child)
		}
		d := e.domains[t.parent]
		if d == nil {
			d = &domain{parent: byID[t.parent], objects: map[uintptr]*object{}}
			e.domains[t.parent] = d
		}
		for _, a := range t.accesses {
			m := member{t, a}
			for _, o := range d.pick(a) {
				before := o.enter(m)
				if len(before) == 0 {
					before = e.outside(d, o)
				}
				if a.weak {
					e.before[t] = append(e.before[t], reach{o.lo, o.hi, slices.Clone(before)})
					continue
				}
				waits = append(waits, wait{t, slices.Clone(before)})
			}
		}
	}
	for _, w := range waits {
		for _, m := range w.list {
			e.waits(w.t, m, 0)
		}
	}
	for _, t := range tasks {
		if t.by != 0 && t.by != t.id && byID[t.by] != nil && len(t.accesses) == 0 && t.by != t.parent {
			e.edge(t.by, t.id, graph.Order) // of a recorded loop, whose accesses are not declared again
		}
	}
	return e.edges
}

func (e *edger) edge(from, to uint64, k graph.Kind) {
	key := [2]uint64{from, to}
	if from == to || k == graph.Order && e.seen[key] {
		return
	}
	if k == graph.Order {
		e.seen[key] = true
	}
	e.edges = append(e.edges, graph.Edge{From: from, To: to, Kind: k})
}

// deepest bounds how far children of children are asked (guess; a program with more has edges missing between them).
const deepest = 64

// waits adds the edges of t's wait for m: to m's task, unless it has the access only for its children, and to the last of these.
func (e *edger) waits(t *live, m member, depth int) {
	for p := t; p != nil; p = e.parent(p) {
		if p == m.task {
			return // the parent's own access
		}
	}
	if !m.acc.weak {
		e.edge(m.task.id, t.id, graph.Order)
	}
	d := e.domains[m.task.id]
	if d == nil || depth > deepest {
		return
	}
	for _, o := range d.meets(m.acc) {
		for _, x := range o.now {
			e.waits(t, x, depth+1)
		}
	}
}

func (e *edger) parent(t *live) *live {
	if d := e.domains[t.parent]; d != nil {
		return d.parent
	}
	return nil
}

// outside is what the first group of a domain waits for: what its parent's weak accesses to the same memory do.
func (e *edger) outside(d *domain, o *object) []member {
	if d.parent == nil {
		return nil
	}
	var list []member
	for _, r := range e.before[d.parent] {
		if r.lo == o.lo || o.lo < r.hi && r.lo < o.hi {
			list = append(list, r.list...)
		}
	}
	return list
}

// pick returns the objects and pieces that an access is to, and makes them if they are new.
func (d *domain) pick(a access) []*object {
	lo, hi := a.lo, a.lo+max(a.size, 1)
	if !a.rng {
		o := d.objects[lo]
		if o == nil {
			o = &object{lo: lo, hi: hi, mode: -1}
			d.objects[lo] = o
		}
		return append(d.cut(lo, hi, false), o)
	}
	list := d.cut(lo, hi, true)
	for _, o := range d.objects {
		if o.lo < hi && lo < o.hi {
			list = append(list, o)
		}
	}
	return list
}

// cut returns the pieces that make up lo to hi, as far as there are any; with fill, new ones where there are none.
func (d *domain) cut(lo, hi uintptr, fill bool) (list []*object) {
	if len(d.pieces) == 0 && !fill {
		return nil
	}
	var pieces []*object
	at := lo
	hole := func(to uintptr) {
		if fill && at < to {
			p := &object{lo: at, hi: to, mode: -1}
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
			pieces = append(pieces, p.copy(p.lo, lo))
		}
		mid := p.copy(max(p.lo, lo), min(p.hi, hi))
		pieces, list = append(pieces, mid), append(list, mid)
		if p.hi > hi {
			pieces = append(pieces, p.copy(hi, p.hi))
		}
		at = max(at, mid.hi)
	}
	hole(hi)
	slices.SortFunc(pieces, func(a, b *object) int { return cmp.Compare(a.lo, b.lo) })
	d.pieces = pieces
	return list
}

// meets returns the objects and pieces of d that an access of the parent covers.
func (d *domain) meets(a access) (list []*object) {
	if !a.rng {
		if o := d.objects[a.lo]; o != nil {
			list = append(list, o)
		}
	}
	hi := a.lo + max(a.size, 1)
	for _, p := range d.pieces {
		if p.lo < hi && a.lo < p.hi {
			list = append(list, p)
		}
	}
	if a.rng {
		for _, o := range d.objects {
			if o.lo < hi && a.lo < o.hi {
				list = append(list, o)
			}
		}
	}
	return list
}
