// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"
	"time"
)

// Analysis has the figures that follow from the order of the tasks.
type Analysis struct {
	Work time.Duration // the sum of the run times of all tasks
	// Span is the longest chain of tasks that wait for each other. No number of slots is faster.
	Span time.Duration
	Wall time.Duration // from the first start to the last end

	// Path is the chain that makes up the span, as indices of Graph.Nodes, in order.
	Path []int
	// Share is the contribution of each task of Path to Span.
	Share []time.Duration

	// Ignored is the number of edges that lead to or from tasks that are not in the graph, or close
	// a cycle. A complete recording of a run has no such edges.
	Ignored int
}

// Parallelism is work divided by span: the number of slots that the program can use on average.
func (a *Analysis) Parallelism() float64 {
	if a.Span <= 0 {
		return 0
	}
	return float64(a.Work) / float64(a.Span)
}

// step is an edge between moments: the later one is at least weight after the earlier one.
type step struct {
	to     int32
	weight time.Duration
}

// moments are the vertices of the analysis. Each node has one for its start, one for each of its
// stops, and one for its end. A task is not a single vertex, because a part of its body comes after
// the children that the body has waited for.
type moments struct {
	g     *Graph
	first []int32 // by node: its start; the end is the moment before the next node's start
	steps [][]step
}

func (m *moments) start(i int32) int32 { return m.first[i] }
func (m *moments) end(i int32) int32   { return m.first[i+1] - 1 }

// part returns the moment that begins the part of i's body at the time at, and how long, at most,
// that part had run then.
func (m *moments) part(i int32, at time.Duration) (moment int32, run time.Duration) {
	n := &m.g.Nodes[i]
	k, since, done, until := 0, n.Started, time.Duration(0), n.Run
	for k < len(n.Stops) && n.Stops[k].At <= at {
		since, done = n.Stops[k].At, n.Stops[k].Run
		k++
	}
	if k < len(n.Stops) {
		until = n.Stops[k].Run
	}
	return m.first[i] + int32(k), max(0, min(at-since, until-done))
}

func (m *moments) add(from, to int32, weight time.Duration) {
	m.steps[from] = append(m.steps[from], step{to, weight})
}

// newMoments makes the vertices and their edges. It returns how many edges of the graph it could
// not use.
func newMoments(g *Graph) (m *moments, ignored int) {
	m = &moments{g: g, first: make([]int32, len(g.Nodes)+1)}
	for i := range g.Nodes {
		m.first[i+1] = m.first[i] + int32(len(g.Nodes[i].Stops)) + 2
	}
	m.steps = make([][]step, m.first[len(g.Nodes)])
	at := g.index()
	received := make([]bool, len(g.Nodes)) // the edge of a message ends at the task's end
	for _, e := range g.Edges {
		from, ok1 := at[e.From]
		to, ok2 := at[e.To]
		if !ok1 || !ok2 || from == to {
			ignored++
			continue
		}
		switch e.Kind {
		case Order:
			m.add(m.end(from), m.start(to), 0)
		case Child:
			p, run := m.part(from, g.Nodes[to].Spawned)
			m.add(p, m.start(to), run)
			if p != m.end(from)-1 { // a wait follows: the next part comes after the child
				m.add(m.end(to), p+1, 0)
			}
		case Message:
			// The sender need not be over: its message was sent while it ran.
			m.add(m.start(from), m.end(to), g.Nodes[from].Run)
			received[to] = true
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		v, before := m.first[i], time.Duration(0)
		for _, s := range n.Stops {
			m.add(v, v+1, max(0, s.Run-before))
			v, before = v+1, s.Run
		}
		last := max(0, n.Run-before)
		if !received[i] { // else the message says when the task ends
			last += n.Bound
		}
		m.add(v, v+1, last)
	}
	return m, ignored
}

// order returns the moments in a topological order. It leaves out moments on cycles.
func (m *moments) order() []int32 {
	in := make([]int32, len(m.steps))
	for _, steps := range m.steps {
		for _, s := range steps {
			in[s.to]++
		}
	}
	list := make([]int32, 0, len(in))
	for v, n := range in {
		if n == 0 {
			list = append(list, int32(v))
		}
	}
	for i := 0; i < len(list); i++ {
		for _, s := range m.steps[list[i]] {
			if in[s.to]--; in[s.to] == 0 {
				list = append(list, s.to)
			}
		}
	}
	return list
}

// Analyse computes work, span and critical path. Its time and memory are proportional to nodes and
// edges.
func (g *Graph) Analyse() *Analysis {
	a := &Analysis{}
	if len(g.Nodes) == 0 {
		return a
	}
	first, last := g.Nodes[0].Started, g.Nodes[0].Done
	for i := range g.Nodes {
		n := &g.Nodes[i]
		a.Work += n.Run
		first, last = min(first, n.Started), max(last, n.Done)
	}
	a.Wall = max(0, last-first)

	m, ignored := newMoments(g)
	a.Ignored = ignored
	order := m.order()
	if len(order) < len(m.steps) {
		a.Ignored++
	}
	// the length of the longest chain that ends at each moment
	reach := make([]time.Duration, len(m.steps))
	from := slices.Repeat([]int32{-1}, len(m.steps))
	for _, v := range order {
		for _, s := range m.steps[v] {
			if t := reach[v] + s.weight; t > reach[s.to] || from[s.to] < 0 {
				reach[s.to], from[s.to] = t, v
			}
		}
	}
	top := order[0]
	for _, v := range order {
		if reach[v] > reach[top] {
			top = v
		}
	}
	a.Span = reach[top]
	m.trace(a, from, reach, top)
	return a
}

// trace follows the critical path back from its last moment.
func (m *moments) trace(a *Analysis, from []int32, reach []time.Duration, v int32) {
	node := func(v int32) int {
		i, found := slices.BinarySearch(m.first, v)
		if !found {
			i--
		}
		return i
	}
	for v >= 0 {
		i, u := node(v), from[v]
		var d time.Duration
		if u >= 0 {
			d = reach[v] - reach[u]
			if j := node(u); j != i {
				// the weight of an edge is run time of the task at its beginning
				if n := len(a.Path); n == 0 || a.Path[n-1] != i {
					a.Path, a.Share = append(a.Path, i), append(a.Share, 0)
				}
				i = j
			}
		}
		if n := len(a.Path); n > 0 && a.Path[n-1] == i {
			a.Share[n-1] += d
		} else {
			a.Path, a.Share = append(a.Path, i), append(a.Share, d)
		}
		v = u
	}
	slices.Reverse(a.Path)
	slices.Reverse(a.Share)
}

// Round rounds a duration to about three digits.
func Round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
