// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package graph is the graph of a task program that has run: its tasks with their times, and what
// each had to wait for. It computes work, span and critical path, folds tasks with one label into
// one, and writes the graph as DOT and as SVG, for which it has a layered layout of its own. It
// knows nothing of where tasks come from.
//
//	g := &graph.Graph{Nodes: …, Edges: …}
//	a := g.Analyse()
//	err := g.SVG(w, a, graph.Options{})
//
// Nothing in it is safe for concurrent use, and nothing blocks. A Graph is not changed once it is
// made.
package graph

import (
	"fmt"
	"time"
)

// A Graph is a set of tasks and what orders them.
type Graph struct {
	Nodes []Node
	Edges []Edge
	Notes []string // what was left out, a sentence each; every output repeats them
}

// A Node is a task. Times are since some origin that all nodes share.
type Node struct {
	ID    uint64 // not zero
	Label string
	Site  string // where it was spawned
	Rank  int

	Spawned, Started, Done time.Duration

	Run   time.Duration // on a slot
	Bound time.Duration // after the body, waiting for what is bound to the task

	// Stops are the moments in the body at which a wait for the children was over, in order.
	Stops []Stop
}

// A Stop ends a part of a body: what the body does afterwards comes after the children that it has
// made before.
type Stop struct {
	At  time.Duration // when the wait was over
	Run time.Duration // what the body had run until then, since its start
}

// Kind says why the end of an edge comes after its beginning.
type Kind uint8

// The kinds of edges.
const (
	Order   Kind = iota // an access of To waits for one of From
	Child               // From has spawned To
	Message             // what To is bound to waits for something that From has sent
)

var kinds = [...]string{Order: "order", Child: "child", Message: "message"}

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// An Edge leads from one task to another.
type Edge struct {
	From, To uint64
	Kind     Kind
}

// index returns the place of each node by its ID.
func (g *Graph) index() map[uint64]int32 {
	m := make(map[uint64]int32, len(g.Nodes))
	for i := range g.Nodes {
		m[g.Nodes[i].ID] = int32(i)
	}
	return m
}

// name is what a node is called in pictures.
func (n *Node) name() string {
	if n.Label != "" {
		return n.Label
	}
	if n.Site != "" {
		return n.Site
	}
	return fmt.Sprintf("task %d", n.ID)
}
