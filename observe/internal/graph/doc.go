// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package graph is the graph of a task program that has run: its tasks with their times, and what each had to wait for. It computes
// work, span and critical path, folds tasks with one label into one, and writes the graph as DOT and as SVG, for which it has a layered layout
// of its own. It knows nothing of where tasks come from.
//
//	g := &graph.Graph{Nodes: …, Edges: …}
//	a := g.Analyse()
//	err := g.SVG(w, a, graph.Options{})
//
// Nothing in it is safe for concurrent use, and nothing blocks. A Graph is not changed once it is made.
package graph
