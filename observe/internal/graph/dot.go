// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options say how a graph is written.
type Options struct {
	// Title is written above the figures.
	Title string

	// Most is how many tasks are drawn one by one. A graph with more is folded: all tasks with one label are one box.
	// Zero means 400; a negative number folds always.
	Most int
}

const mostDrawn = 400 // tasks one by one; more is a wall of boxes (looked at)

// shape chooses between tasks and labels, and says in words what the choice was.
func (g *Graph) shape(a *Analysis, o Options) (s *shape, notes []string) {
	most := o.Most
	if most == 0 {
		most = mostDrawn
	}
	notes = g.Notes
	if a.Ignored > 0 {
		notes = append(slices.Clip(notes), fmt.Sprintf("%d edges are left out: a task at one end was not recorded.", a.Ignored))
	}
	if len(g.Nodes) <= most {
		return g.whole(a), notes
	}
	notes = append(slices.Clip(notes), fmt.Sprintf("Folded by label: %d tasks are more than the %d that are drawn one by one.", len(g.Nodes), max(0, most)))
	return g.folded(a), notes
}

// figures are the lines above a graph.
func (g *Graph) figures(a *Analysis, o Options) []string {
	title := o.Title
	if title == "" {
		title = "task graph"
	}
	return []string{
		title,
		fmt.Sprintf("%s, %s; work %v, span %v: parallelism %.1f; %s on the critical path; %v from the first start to the last end",
			count(len(g.Nodes), "task"), count(len(g.Edges), "edge"), round(a.Work), round(a.Span), a.Parallelism(), count(len(a.Path), "task"), round(a.Wall)),
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tip is what is told of a task beside its name.
func (n *Node) tip() []string {
	t := []string{fmt.Sprintf("task %d", n.ID)}
	if n.Site != "" {
		t = append(t, "spawned at "+n.Site)
	}
	t = append(t, "run "+round(n.Run).String())
	if n.Bound > 0 {
		t = append(t, "bound "+round(n.Bound).String())
	}
	if n.Rank > 0 {
		t = append(t, fmt.Sprintf("rank %d", n.Rank))
	}
	return t
}

// groupTip is what is told of tasks with one label.
func groupTip(b *box, sites map[string]bool) []string {
	t := []string{count(b.count, "task")}
	for i, s := range slices.Sorted(maps.Keys(sites)) {
		if i == 3 {
			t = append(t, fmt.Sprintf("and at %d other places", len(sites)-i))
			break
		}
		if s != "" {
			t = append(t, "spawned at "+s)
		}
	}
	t = append(t, "run "+round(b.run).String(), "run per task "+round(b.run/time.Duration(max(1, b.count))).String())
	if b.hot > 0 {
		t = append(t, "on the critical path "+round(b.hot).String())
	}
	return t
}

// caption is what stands in a box.
func (b *box) caption() (name, under string) {
	if b.count > 1 {
		return b.name, fmt.Sprintf("%d × %v", b.count, round(b.run/time.Duration(b.count)))
	}
	return b.name, round(b.run).String()
}

// DOT writes the graph in the language of Graphviz.
func (g *Graph) DOT(w io.Writer, a *Analysis, o Options) error {
	b := bufio.NewWriter(w)
	s, notes := g.shape(a, o)
	fmt.Fprintln(b, "digraph tasks {")
	for _, l := range slices.Concat(g.figures(a, o), notes) {
		fmt.Fprintf(b, "  // %s\n", oneLine(l))
	}
	fmt.Fprintf(b, "  label=%s; labelloc=t;\n", quote(strings.Join(slices.Concat(g.figures(a, o), notes), "\n")))
	fmt.Fprintln(b, `  node [shape=box, style="rounded,filled", fontname="Helvetica"]; edge [color="#667085"];`)
	for i := range s.boxes {
		x := &s.boxes[i]
		name, under := x.caption()
		more := ""
		if x.onHot {
			more = fmt.Sprintf(", color=%q, penwidth=3", hotColour)
		}
		fmt.Fprintf(b, "  n%d [label=%s, tooltip=%s, fillcolor=%q%s];\n", i, quote(name+"\n"+under), quote(strings.Join(x.tip, "\n")), fills[x.style%len(fills)], more)
	}
	for _, l := range s.lines {
		var more []string
		switch l.kind {
		case Child:
			more = append(more, "style=dotted")
		case Message:
			more = append(more, "style=dashed")
		}
		if l.hot {
			more = append(more, fmt.Sprintf("color=%q, penwidth=3", hotColour))
		}
		if l.count > 1 {
			more = append(more, fmt.Sprintf("label=%q", fmt.Sprint(l.count)))
		}
		attrs := ""
		if len(more) > 0 {
			attrs = " [" + strings.Join(more, ", ") + "]"
		}
		fmt.Fprintf(b, "  n%d -> n%d%s;\n", l.from, l.to, attrs)
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

// quote is a quoted string of DOT, in which only the quote and the backslash are special.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(clean(s))
	return `"` + s + `"`
}

func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean makes any text one of DOT, which is UTF-8 and has no zeros.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}
