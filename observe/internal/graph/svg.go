// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/internal/event"
)

// Colours. The fills differ in lightness, for readers who cannot distinguish red from green.
var fills = []string{
	"#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#ffe08a", "#8dd3c7", "#fbb4ae", "#bcbddc", "#d9d9d9", "#c7e9b4", "#f2c6e2", "#e5c494",
}

const (
	hotColour  = "#c1121f" // the critical path
	lineColour = "#667085"
	charWidth  = 6.7 // of the picture's font, on average
	maxName    = 30  // characters of a name in a box; a pointer over the box shows the whole name
)

// lineStyles are the styles of edges, by kind: the class in SVG, the style in DOT, and the name in
// the legend.
var lineStyles = [...]struct{ class, style, name string }{
	Order: {"l", "", "an access waits"}, Child: {"l c", "dotted", "spawns"}, Message: {"l m", "dashed", "a message"},
}

// headLine is the height of a line above the picture.
const headLine = 18

// SVG writes the graph as a self-contained picture. A pointer over a box shows the details of its
// tasks.
func (g *Graph) SVG(w io.Writer, a *Analysis, o Options) error {
	b := bufio.NewWriter(w)
	s, head := g.shape(a, o)
	p := arrange(s, (*box).width)
	legend := s.legend(g)

	wide := 0
	for _, l := range head {
		wide = max(wide, len([]rune(l)))
	}
	top := margin + headLine*float64(len(head)) + legend.height
	width := max(p.width, float64(wide)*charWidth+2*margin, legend.width)
	height := top + p.height
	shift := max(0, (width-p.width)/2)

	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="Helvetica, Arial, sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(b, "<title>%s</title>\n", event.XML(head[0]))
	fmt.Fprintf(b, `<style>.b{stroke:#475467}.h{stroke:%s;stroke-width:2.5}.l{fill:none;stroke:%s}.c{stroke-dasharray:1 3}.m{stroke-dasharray:6 3}.x{stroke:%s;stroke-width:2.5}text{fill:#101828}.u{fill:#475467;font-size:11px}.n{paint-order:stroke;stroke:#fff;stroke-width:3px}</style>`+"\n", hotColour, lineColour, hotColour)
	fmt.Fprintf(b, `<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0 8 4 0 8z" fill="%s"/></marker>`, lineColour)
	fmt.Fprintf(b, `<marker id="z" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0 8 4 0 8z" fill="%s"/></marker></defs>`+"\n", hotColour)
	fmt.Fprintf(b, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", width, height)
	for i, l := range head {
		weight := ""
		if i == 0 {
			weight = ` font-weight="bold" font-size="14"`
		}
		fmt.Fprintf(b, `<text x="%d" y="%.0f"%s>%s</text>`+"\n", margin, margin+headLine*float64(i)+12, weight, event.XML(l))
	}
	legend.write(b, margin+headLine*float64(len(head)))

	fmt.Fprintf(b, `<g transform="translate(%.1f %.1f)">`+"\n", shift, top)
	for _, critical := range []bool{false, true} { // the critical path is drawn above the rest
		for i, l := range s.lines {
			if l.critical == critical {
				writeLine(b, &l, p, i)
			}
		}
	}
	for i, l := range s.lines {
		if l.count > 1 {
			at := countAt(&l, p, i)
			fmt.Fprintf(b, `<text class="u n" x="%.1f" y="%.1f">%d</text>`+"\n", at.x, at.y, l.count)
		}
	}
	for i := range s.boxes {
		x, at := &s.boxes[i], p.boxes[i]
		class := "b"
		if x.critical {
			class = "h"
		}
		name, under := x.caption()
		fmt.Fprintf(b, `<g><title>%s</title><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="6" fill="%s"/>`,
			event.XML(x.name+"\n"+strings.Join(x.tip, "\n")), class, at.x-at.w/2, at.y-at.h/2, at.w, at.h, fills[x.style%len(fills)])
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text><text class="u" x="%.1f" y="%.1f" text-anchor="middle">%s</text></g>`+"\n",
			at.x, at.y-3, event.XML(cut(name)), at.x, at.y+11, event.XML(under))
	}
	fmt.Fprintln(b, "</g>\n</svg>")
	return b.Flush()
}

// width of a box with its two lines.
func (b *box) width() float64 {
	name, under := b.caption()
	n := max(len([]rune(cut(name))), len([]rune(under)))
	return max(52, float64(n)*charWidth+14)
}

// writeLine draws an edge from the border of one box to that of the other.
func writeLine(b *bufio.Writer, l *line, p *picture, i int) {
	class, end := lineStyles[l.kind].class, "a"
	if l.critical {
		class, end = class+" x", "z"
	}
	var d strings.Builder
	if l.from == l.to {
		q := p.boxes[l.from]
		x, y := q.x+q.w/2, q.y
		fmt.Fprintf(&d, "M%.1f %.1fc26 -22 26 22 0 14", x, y-8)
	} else {
		pts := slices.Clone(p.lines[i])
		down := pts[0].y < pts[len(pts)-1].y
		half := boxHeight / 2.0
		if !down {
			half = -half
		}
		pts[0].y += half
		pts[len(pts)-1].y -= half
		pts[0].x += lean(p.boxes[l.from], pts[0], pts[1])
		pts[len(pts)-1].x += lean(p.boxes[l.to], pts[len(pts)-1], pts[len(pts)-2])
		if !down { // shifted, so that it does not cover a line down between the same boxes
			for k := range pts {
				pts[k].x += 9
			}
		}
		fmt.Fprintf(&d, "M%.1f %.1f", pts[0].x, pts[0].y)
		for k := 1; k < len(pts); k++ {
			mid := (pts[k-1].y + pts[k].y) / 2
			fmt.Fprintf(&d, "C%.1f %.1f %.1f %.1f %.1f %.1f", pts[k-1].x, mid, pts[k].x, mid, pts[k].x, pts[k].y)
		}
	}
	fmt.Fprintf(b, `<path class="%s" d="%s" marker-end="url(#%s)"/>`+"\n", class, d.String(), end)
}

// countAt returns the position of the number of edges that a line stands for. It is near the line's
// beginning, so that the numbers of the two directions do not overlap.
func countAt(l *line, p *picture, i int) point {
	if l.from == l.to {
		q := p.boxes[l.from]
		return point{q.x + q.w/2 + 22, q.y + 4}
	}
	from, to := p.lines[i][0], p.lines[i][1]
	at := point{from.x + (to.x-from.x)*0.35 + 4, from.y + (to.y-from.y)*0.42 + 4}
	if to.y < from.y {
		at.x += 9
	}
	return at
}

// lean moves the end of an edge along the border of its box, in the direction of the edge, so that
// edges do not all meet in one point.
func lean(q placedBox, end, next point) float64 {
	return max(-q.w/2+8, min(q.w/2-8, (next.x-end.x)*0.25))
}

// cut shortens a name to its end, which is the informative part of a function's name.
func cut(name string) string {
	r := []rune(name)
	if len(r) <= maxName {
		return name
	}
	return "…" + string(r[len(r)-maxName+1:])
}

// legend explains the colours and lines.
type legend struct {
	entries       []entry
	width, height float64
}

type entry struct {
	name       string
	fill, line string // one of them
	x          float64
	row        int
}

const (
	maxEntries  = 12
	legendWidth = 900.0
	legendRow   = 20.0
)

func (s *shape) legend(g *Graph) *legend {
	l := &legend{}
	names, _ := g.labels()
	for i, name := range names {
		if i == maxEntries {
			l.entries = append(l.entries, entry{name: fmt.Sprintf("and %d more", len(names)-i), fill: "none"})
			break
		}
		l.entries = append(l.entries, entry{name: cut(name), fill: fills[i%len(fills)]})
	}
	has := map[Kind]bool{}
	for _, e := range s.lines {
		has[e.kind] = true
	}
	for k, style := range lineStyles {
		if has[Kind(k)] {
			l.entries = append(l.entries, entry{name: style.name, line: style.class})
		}
	}
	l.entries = append(l.entries, entry{name: "critical path", line: "l x"})
	x, row := float64(margin), 0
	for i := range l.entries {
		e := &l.entries[i]
		w := 34 + float64(len([]rune(e.name)))*charWidth
		if x+w > legendWidth && x > margin {
			x = margin
			row++
		}
		e.x, e.row = x, row
		x += w
		l.width = max(l.width, x+margin)
	}
	l.height = legendRow*float64(row+1) + 4
	return l
}

func (l *legend) write(b *bufio.Writer, top float64) {
	for _, e := range l.entries {
		y := top + legendRow*float64(e.row)
		if e.line != "" {
			fmt.Fprintf(b, `<path class="%s" d="M%.1f %.1fh18"/>`, e.line, e.x, y+8)
		} else {
			fmt.Fprintf(b, `<rect class="b" x="%.1f" y="%.1f" width="14" height="12" rx="3" fill="%s"/>`, e.x, y+2, e.fill)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", e.x+22, y+12, event.XML(e.name))
	}
}

// DOT writes the graph in the language of Graphviz.
func (g *Graph) DOT(w io.Writer, a *Analysis, o Options) error {
	b := bufio.NewWriter(w)
	s, head := g.shape(a, o)
	fmt.Fprintln(b, "digraph tasks {")
	for _, l := range head {
		fmt.Fprintf(b, "  // %s\n", oneLine(l))
	}
	fmt.Fprintf(b, "  label=%s; labelloc=t;\n", quote(strings.Join(head, "\n")))
	fmt.Fprintln(b, `  node [shape=box, style="rounded,filled", fontname="Helvetica"]; edge [color="#667085"];`)
	for i := range s.boxes {
		x := &s.boxes[i]
		name, under := x.caption()
		more := ""
		if x.critical {
			more = fmt.Sprintf(", color=%q, penwidth=3", hotColour)
		}
		fmt.Fprintf(b, "  n%d [label=%s, tooltip=%s, fillcolor=%q%s];\n", i, quote(name+"\n"+under), quote(strings.Join(x.tip, "\n")), fills[x.style%len(fills)], more)
	}
	for _, l := range s.lines {
		var more []string
		if style := lineStyles[l.kind].style; style != "" {
			more = append(more, "style="+style)
		}
		if l.critical {
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

// quote returns a quoted string of DOT, in which only the quote and the backslash are special.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(clean(s))
	return `"` + s + `"`
}
