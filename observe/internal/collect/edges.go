// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"weft/internal/event"
	"weft/internal/order"
	"weft/observe/internal/graph"
)

// edger finds edges. They follow from what tasks have declared, as package order says, at whatever
// time things happened: a task waits for the ends of those that have used its memory before, and
// each is an edge. To give an access up is to end: the body and its events, and all descendants if
// the task has the attribute Wait.
type edger struct {
	of       map[uint64]*order.Task // by number; of a parent that is not known, one without uses
	tasks    map[*order.Task]*live
	children map[uint64][]*live
	seen     map[[2]uint64]bool
	edges    []graph.Edge

	to *live // the task whose edges are looked for
}

// edges returns the edges among tasks, which are in the order in which they were spawned, and have
// their numbers in byID.
func edges(tasks []*live, byID map[uint64]*live) []graph.Edge {
	e := &edger{of: map[uint64]*order.Task{}, tasks: map[*order.Task]*live{}, children: map[uint64][]*live{}, seen: map[[2]uint64]bool{}}
	for _, t := range tasks {
		if t.parent != 0 && byID[t.parent] != nil {
			e.edges = append(e.edges, graph.Edge{From: t.parent, To: t.id, Kind: graph.Child})
			e.children[t.parent] = append(e.children[t.parent], t)
		}
		parent := e.of[t.parent]
		if parent == nil {
			parent = new(order.Task)
			e.of[t.parent] = parent
		}
		var list []order.Access
		for _, a := range *t.declared() {
			list = append(list, order.Access{Lo: a.lo, Hi: a.lo + a.size, Object: !a.rng, Mode: order.Mode(a.mode), Weak: a.weak})
		}
		o := parent.Child(list)
		e.of[t.id], e.tasks[o] = o, t
	}
	rounds := map[*recorded]*live{} // of a recorded task, the last one so far
	for _, t := range tasks {
		e.to = t
		if t.loop != nil {
			if before := rounds[t.loop]; before != nil { // it never runs beside itself
				e.edge(before)
				e.descendants(before)
			}
			rounds[t.loop] = t
		}
		e.of[t.id].Before(func(u *order.Entry, _, _ uintptr) bool {
			from := e.tasks[u.Task]
			if e.edge(from); from.flags&event.SpawnedWait != 0 {
				e.descendants(from)
			}
			return true
		})
		if by := byID[t.by]; by != nil && t.by != t.parent && (len(*t.declared()) == 0 || t.loop != nil && len(*by.declared()) == 0) {
			e.edge(by) // a recorded loop's condition, or the like: what has no accesses
		}
	}
	return e.edges
}

// edge adds one to the task in question.
func (e *edger) edge(from *live) {
	key := [2]uint64{from.id, e.to.id}
	if from == e.to || e.seen[key] {
		return
	}
	e.seen[key] = true
	e.edges = append(e.edges, graph.Edge{From: from.id, To: e.to.id, Kind: graph.Order})
}

func (e *edger) descendants(t *live) {
	for _, c := range e.children[t.id] {
		e.edge(c)
		e.descendants(c)
	}
}
