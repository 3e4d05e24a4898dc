// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

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
