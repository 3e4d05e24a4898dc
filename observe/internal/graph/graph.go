// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package graph has the task graph of a program that has run: its tasks with their times, and an
// edge for each reason why a task waited for another one. It computes work, span and critical path,
// folds tasks with one label into one, and writes the graph as DOT and as SVG, with its own layered
// layout. It does not know where the tasks come from.
//
//	g := &graph.Graph{Nodes: …, Edges: …}
//	a := g.Analyse()
//	err := g.SVG(w, a, graph.Options{})
//
// Nothing in this package is safe for concurrent use, and nothing blocks. A Graph does not change
// after it has been made.
package graph

import (
	"fmt"
	"time"
)

// A Graph is a set of tasks and the edges that order them.
type Graph struct {
	Nodes []Node
	Edges []Edge
	Notes []string // say what was left out, a sentence each; every output repeats them
}

// A Node is a task. Times are since an origin that all nodes share.
type Node struct {
	ID    uint64 // not zero
	Label string
	Site  string // where it was spawned
	Rank  int

	Spawned, Started, Done time.Duration

	Run   time.Duration // on a slot
	Bound time.Duration // after the body, waiting for bound events

	// Stops are the moments in the body at which a wait for children was over, in order.
	Stops []Stop
}

// A Stop ends a part of a body. The next part of the body comes after the children that were
// spawned before the Stop.
type Stop struct {
	At  time.Duration // when the wait was over
	Run time.Duration // how long the body had run until then, since its start
}

// Kind says why the task at the end of an edge comes after the task at its beginning.
type Kind uint8

// The kinds of edges.
const (
	Order   Kind = iota // an access of To waits for an access of From
	Child               // From has spawned To
	Message             // To is bound to a receive of a message that From has sent
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

// index returns the index of each node by its ID.
func (g *Graph) index() map[uint64]int32 {
	m := make(map[uint64]int32, len(g.Nodes))
	for i := range g.Nodes {
		m[g.Nodes[i].ID] = int32(i)
	}
	return m
}

// name is the name of a node in pictures.
func (n *Node) name() string {
	if n.Label != "" {
		return n.Label
	}
	if n.Site != "" {
		return n.Site
	}
	return fmt.Sprintf("task %d", n.ID)
}
