// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"slices"
	"time"
)

// shape is what is drawn: the tasks themselves, or groups of tasks with one label.
type shape struct {
	boxes []box
	lines []line
}

// box is a node of a picture.
type box struct {
	name  string
	tip   []string // what is told beside the name
	style int      // by label
	count int      // tasks in it
	run   time.Duration
	hot   time.Duration // its share of the span
	onHot bool          // on the critical path
}

// line is an edge of a picture.
type line struct {
	from, to int32
	kind     Kind
	count    int
	hot      bool
}

// labels lists the names of all nodes, those with most run time first.
func (g *Graph) labels() (names []string, style map[string]int) {
	run := map[string]time.Duration{}
	for i := range g.Nodes {
		run[g.Nodes[i].name()] += g.Nodes[i].Run
	}
	for name := range run {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(run[b], run[a]), cmp.Compare(a, b))
	})
	style = map[string]int{}
	for i, name := range names {
		style[name] = i
	}
	return names, style
}

// whole is a shape with a box for each task.
func (g *Graph) whole(a *Analysis) *shape {
	s := &shape{}
	_, style := g.labels()
	for i := range g.Nodes {
		n := &g.Nodes[i]
		s.boxes = append(s.boxes, box{name: n.name(), tip: n.tip(), style: style[n.name()], count: 1, run: n.Run})
	}
	next := map[[2]int32]bool{}
	for k, i := range a.Path {
		s.boxes[i].onHot, s.boxes[i].hot = true, s.boxes[i].hot+a.Share[k]
		if k > 0 {
			next[[2]int32{int32(a.Path[k-1]), int32(i)}] = true
		}
	}
	at := g.index()
	waits := make([]bool, len(g.Nodes)) // it is clear enough that these have been spawned
	for _, e := range g.Edges {
		if to, ok := at[e.To]; ok && e.Kind == Order && at[e.From] != to {
			waits[to] = true
		}
	}
	seen := map[line]bool{}
	for _, e := range g.Edges {
		from, ok1 := at[e.From]
		to, ok2 := at[e.To]
		l := line{from: from, to: to, kind: e.Kind, count: 1, hot: next[[2]int32{from, to}]}
		if !ok1 || !ok2 || from == to || seen[l] || e.Kind == Child && waits[to] && !l.hot {
			continue
		}
		seen[l] = true
		s.lines = append(s.lines, l)
	}
	return s
}

// folded is a shape with a box for each label.
func (g *Graph) folded(a *Analysis) *shape {
	s := &shape{}
	names, style := g.labels()
	s.boxes = make([]box, len(names))
	for i, name := range names {
		s.boxes[i] = box{name: name, style: i}
	}
	sites := make([]map[string]bool, len(names))
	for i := range g.Nodes {
		n := &g.Nodes[i]
		k := style[n.name()]
		b := &s.boxes[k]
		b.count++
		b.run += n.Run
		if sites[k] == nil {
			sites[k] = map[string]bool{}
		}
		sites[k][n.Site] = true
	}
	hot := map[[2]int32]bool{}
	for k, i := range a.Path {
		b := int32(style[g.Nodes[i].name()])
		s.boxes[b].onHot, s.boxes[b].hot = true, s.boxes[b].hot+a.Share[k]
		if k > 0 {
			hot[[2]int32{int32(style[g.Nodes[a.Path[k-1]].name()]), b}] = true
		}
	}
	at := g.index()
	count := map[line]int{}
	for _, e := range g.Edges {
		from, ok1 := at[e.From]
		to, ok2 := at[e.To]
		if !ok1 || !ok2 || from == to {
			continue
		}
		f, t := int32(style[g.Nodes[from].name()]), int32(style[g.Nodes[to].name()])
		count[line{from: f, to: t, kind: e.Kind, hot: hot[[2]int32{f, t}]}]++
	}
	ordered := map[int32]bool{}
	for l := range count {
		if l.kind == Order && l.from != l.to {
			ordered[l.to] = true
		}
	}
	for l, n := range count {
		if l.kind == Child && ordered[l.to] && !l.hot {
			continue
		}
		l.count = n
		s.lines = append(s.lines, l)
	}
	slices.SortFunc(s.lines, func(x, y line) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to), cmp.Compare(x.kind, y.kind))
	})
	for i := range s.boxes {
		b := &s.boxes[i]
		b.tip = groupTip(b, sites[i])
	}
	return s
}
