// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"weft/internal/event"
	"weft/internal/order"
	"weft/observe/internal/graph"
)

// edgeFinder finds edges. They follow from the accesses that tasks have declared, by the rules of
// package order, and not from the times. A task waits for the end of each task that has used its
// memory before, and each such wait is an edge. The end of a task is the end of its body, its
// events, and, if it has the attribute Wait, all its descendants.
type edgeFinder struct {
	of       map[uint64]*order.Task // by number; an unknown parent has no accesses
	tasks    map[*order.Task]*live
	children map[uint64][]*live
	seen     map[[2]uint64]bool
	edges    []graph.Edge

	to *live // the task whose incoming edges are searched
}

// edges returns the edges among tasks. tasks are in the order of their spawns; byID has them by
// number.
func edges(tasks []*live, byID map[uint64]*live) []graph.Edge {
	e := &edgeFinder{of: map[uint64]*order.Task{}, tasks: map[*order.Task]*live{}, children: map[uint64][]*live{}, seen: map[[2]uint64]bool{}}
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
			if before := rounds[t.loop]; before != nil { // rounds of one task never overlap
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
			e.edge(by) // a task without accesses, such as the condition of a recorded loop
		}
	}
	return e.edges
}

// edge adds an edge to e.to.
func (e *edgeFinder) edge(from *live) {
	key := [2]uint64{from.id, e.to.id}
	if from == e.to || e.seen[key] {
		return
	}
	e.seen[key] = true
	e.edges = append(e.edges, graph.Edge{From: from.id, To: e.to.id, Kind: graph.Order})
}

func (e *edgeFinder) descendants(t *live) {
	for _, c := range e.children[t.id] {
		e.edge(c)
		e.descendants(c)
	}
}
