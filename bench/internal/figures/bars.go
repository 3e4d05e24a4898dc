// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weft/bench/internal/harness"
)

// series has the bars of one colour, at most one in each group.
type series struct {
	appearance
	rows map[int]harness.Row // by the index of the group
}

// grouped draws groups of bars side by side: group i around the value i of X. A bar reaches from
// the least value of Y to the median, and its whisker from the least sample to the greatest.
type grouped struct {
	groups int
	all    []series
}

// room is the part of a group's width that its bars take.
const room = 0.8

// Plot implements plot.Plotter.
func (g *grouped) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	wide := room / float64(len(g.all))
	whisker := draw.LineStyle{Color: ink, Width: thinWidth}
	for k, s := range g.all {
		for i := range g.groups {
			r, has := s.rows[i]
			if !has {
				continue
			}
			left := float64(i) - room/2 + float64(k)*wide
			c.FillPolygon(s.color, rectangle(x(left), y(p.Y.Min), x(left+0.92*wide), y(r.Median)))
			if r.Min == r.Max {
				continue
			}
			mid, end := x(left+0.46*wide), vg.Length(0.25)*(x(left+wide)-x(left))
			low, high := y(max(r.Min, p.Y.Min)), y(r.Max)
			c.StrokeLine2(whisker, mid, low, mid, high)
			c.StrokeLine2(whisker, mid-end, low, mid+end, low)
			c.StrokeLine2(whisker, mid-end, high, mid+end, high)
		}
	}
}

// DataRange implements plot.DataRanger.
func (g *grouped) DataRange() (xmin, xmax, ymin, ymax float64) {
	first := true
	for _, s := range g.all {
		for i := range g.groups {
			r, has := s.rows[i]
			if !has {
				continue
			}
			if first {
				ymin, first = r.Min, false
			}
			ymin, ymax = min(ymin, r.Min), max(ymax, r.Max)
		}
	}
	return -0.5, float64(g.groups) - 0.5, ymin, ymax
}

func rectangle(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x0, Y: y1}, {X: x1, Y: y1}, {X: x1, Y: y0}}
}

// Thumbnail implements plot.Thumbnailer: a patch of the series' colour.
func (s *series) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, rectangle(c.Min.X+4, c.Min.Y+1, c.Max.X-4, c.Max.Y-1))
}
