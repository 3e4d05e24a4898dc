// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// shape is what is drawn: a box for each task, or a box for the tasks with one label.
type shape struct {
	boxes []box
	lines []line
}

// box is a node of a picture.
type box struct {
	name     string
	tip      []string // details beside the name
	style    int      // by label
	count    int      // tasks in it
	run      time.Duration
	share    time.Duration // its share of the span
	critical bool          // on the critical path
}

// line is an edge of a picture.
type line struct {
	from, to int32
	kind     Kind
	count    int
	critical bool
}

// labels returns the names of all nodes, by run time in descending order, and the style of each.
func (g *Graph) labels() (names []string, style map[string]int) {
	run := map[string]time.Duration{}
	for i := range g.Nodes {
		run[g.Nodes[i].name()] += g.Nodes[i].Run
	}
	names = slices.SortedFunc(maps.Keys(run), func(a, b string) int {
		return cmp.Or(cmp.Compare(run[b], run[a]), cmp.Compare(a, b))
	})
	style = map[string]int{}
	for i, name := range names {
		style[name] = i
	}
	return names, style
}

// whole returns a shape with a box for each task.
func (g *Graph) whole(a *Analysis) *shape {
	s := &shape{}
	_, style := g.labels()
	for i := range g.Nodes {
		n := &g.Nodes[i]
		s.boxes = append(s.boxes, box{name: n.name(), tip: n.tip(), style: style[n.name()], count: 1, run: n.Run})
	}
	next := map[[2]int32]bool{}
	for k, i := range a.Path {
		s.boxes[i].critical, s.boxes[i].share = true, s.boxes[i].share+a.Share[k]
		if k > 0 {
			next[[2]int32{int32(a.Path[k-1]), int32(i)}] = true
		}
	}
	at := g.index()
	waits := make([]bool, len(g.Nodes)) // tasks with an Order edge; their Child edges are not drawn
	for _, e := range g.Edges {
		if to, ok := at[e.To]; ok && e.Kind == Order && at[e.From] != to {
			waits[to] = true
		}
	}
	seen := map[line]bool{}
	for _, e := range g.Edges {
		from, ok1 := at[e.From]
		to, ok2 := at[e.To]
		l := line{from: from, to: to, kind: e.Kind, count: 1, critical: next[[2]int32{from, to}]}
		if !ok1 || !ok2 || from == to || seen[l] || e.Kind == Child && waits[to] && !l.critical {
			continue
		}
		seen[l] = true
		s.lines = append(s.lines, l)
	}
	return s
}

// folded returns a shape with a box for each label.
func (g *Graph) folded(a *Analysis) *shape {
	s := &shape{}
	names, style := g.labels()
	s.boxes = make([]box, len(names))
	sites := make([]map[string]bool, len(names))
	for i, name := range names {
		s.boxes[i] = box{name: name, style: i}
		sites[i] = map[string]bool{}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		k := style[n.name()]
		b := &s.boxes[k]
		b.count++
		b.run += n.Run
		sites[k][n.Site] = true
	}
	hot := map[[2]int32]bool{}
	for k, i := range a.Path {
		b := int32(style[g.Nodes[i].name()])
		s.boxes[b].critical, s.boxes[b].share = true, s.boxes[b].share+a.Share[k]
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
		count[line{from: f, to: t, kind: e.Kind, critical: hot[[2]int32{f, t}]}]++
	}
	ordered := map[int32]bool{}
	for l := range count {
		if l.kind == Order && l.from != l.to {
			ordered[l.to] = true
		}
	}
	for l, n := range count {
		if l.kind == Child && ordered[l.to] && !l.critical {
			continue
		}
		l.count = n
		s.lines = append(s.lines, l)
	}
	slices.SortFunc(s.lines, func(x, y line) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to), cmp.Compare(x.kind, y.kind))
	})
	for i := range s.boxes {
		s.boxes[i].tip = groupTip(&s.boxes[i], sites[i])
	}
	return s
}

// Options configure the output of a graph.
type Options struct {
	// Title is the first line of the picture.
	Title string

	// Most is the number of tasks that are drawn one by one. A graph with more is folded: all tasks
	// with one label are one box. Zero means 400; a negative number always folds.
	Most int
}

const maxDrawn = 400 // tasks that are drawn one by one; pictures with more were unreadable

// shape chooses between tasks and labels. head is the lines above the graph, which include the
// choice.
func (g *Graph) shape(a *Analysis, o Options) (s *shape, head []string) {
	most := cmp.Or(o.Most, maxDrawn)
	head = append([]string{
		cmp.Or(o.Title, "task graph"),
		fmt.Sprintf("%s, %s; work %v, span %v: parallelism %.1f; %s on the critical path; %v from the first start to the last end",
			count(len(g.Nodes), "task"), count(len(g.Edges), "edge"), Round(a.Work), Round(a.Span), a.Parallelism(), count(len(a.Path), "task"), Round(a.Wall)),
	}, g.Notes...)
	if a.Ignored > 0 {
		head = append(head, fmt.Sprintf("%d edges are left out: a task at one end was not recorded.", a.Ignored))
	}
	if len(g.Nodes) <= most {
		return g.whole(a), head
	}
	head = append(head, fmt.Sprintf("Folded by label: %d tasks are more than the %d that are drawn one by one.", len(g.Nodes), max(0, most)))
	return g.folded(a), head
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tip returns the details of a task, without its name.
func (n *Node) tip() []string {
	t := []string{fmt.Sprintf("task %d", n.ID)}
	if n.Site != "" {
		t = append(t, "spawned at "+n.Site)
	}
	t = append(t, "run "+Round(n.Run).String())
	if n.Bound > 0 {
		t = append(t, "bound "+Round(n.Bound).String())
	}
	if n.Rank > 0 {
		t = append(t, fmt.Sprintf("rank %d", n.Rank))
	}
	return t
}

// groupTip returns the details of the tasks with one label.
func groupTip(b *box, sites map[string]bool) []string {
	t := []string{count(b.count, "task")}
	for i, s := range slices.Sorted(maps.Keys(sites)) {
		if i == 3 {
			t = append(t, fmt.Sprintf("and at %d other positions", len(sites)-i))
			break
		}
		if s != "" {
			t = append(t, "spawned at "+s)
		}
	}
	t = append(t, "run "+Round(b.run).String(), "run per task "+Round(b.run/time.Duration(max(1, b.count))).String())
	if b.share > 0 {
		t = append(t, "on the critical path "+Round(b.share).String())
	}
	return t
}

// caption returns the two lines in a box.
func (b *box) caption() (name, under string) {
	if b.count > 1 {
		return b.name, fmt.Sprintf("%d × %v", b.count, Round(b.run/time.Duration(b.count)))
	}
	return b.name, Round(b.run).String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean makes any text legal in DOT: UTF-8 without zeros.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}
