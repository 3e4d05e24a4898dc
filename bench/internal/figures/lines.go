// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// point is a median and the range of the samples at x.
type point struct{ x, y, low, high float64 }

// logX is the point on an axis of X that is logarithmic.
func (q point) logX() point { return point{math.Log10(q.x), q.y, q.low, q.high} }

// logY is the same for Y.
func (q point) logY() point {
	return point{q.x, math.Log10(q.y), math.Log10(q.low), math.Log10(q.high)}
}

// curve draws the points of a peer: a line through the medians, a mark at each, and a whisker from
// the least sample to the greatest.
type curve struct {
	appearance
	points []point
}

// newCurve returns a curve whose points are in the order of x.
func newCurve(l appearance, points []point) *curve {
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return &curve{l, points}
}

func (k *curve) line() draw.LineStyle {
	return draw.LineStyle{Color: k.color, Width: lineWidth, Dashes: k.dash}
}

func (k *curve) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: k.color, Radius: markRadius, Shape: k.mark}
}

// Plot implements plot.Plotter.
func (k *curve) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var at []vg.Point
	whisker := draw.LineStyle{Color: k.color, Width: thinWidth}
	for _, q := range k.points {
		if q.low < q.high {
			c.StrokeLine2(whisker, x(q.x), y(max(q.low, p.Y.Min)), x(q.x), y(min(q.high, p.Y.Max)))
		}
		at = append(at, vg.Point{X: x(q.x), Y: y(q.y)})
	}
	c.StrokeLines(k.line(), c.ClipLinesXY(at)...)
	for _, q := range at {
		c.DrawGlyph(k.glyph(), q)
	}
}

// DataRange implements plot.DataRanger.
func (k *curve) DataRange() (xmin, xmax, ymin, ymax float64) {
	for i, q := range k.points {
		if i == 0 {
			xmin, xmax, ymin, ymax = q.x, q.x, q.low, q.high
		}
		xmin, xmax, ymin, ymax = min(xmin, q.x), max(xmax, q.x), min(ymin, q.low), max(ymax, q.high)
	}
	return xmin, xmax, ymin, ymax
}

// Thumbnail implements plot.Thumbnailer: a piece of the line with a mark.
func (k *curve) Thumbnail(c *draw.Canvas) {
	mid := (c.Min.Y + c.Max.Y) / 2
	c.StrokeLine2(k.line(), c.Min.X, mid, c.Max.X, mid)
	c.DrawGlyph(k.glyph(), vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: mid})
}

// level draws a dashed line at a value of Y.
type level float64

// Plot implements plot.Plotter.
func (v level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	at := y(float64(v))
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: thinWidth, Dashes: []vg.Length{3, 2}}, c.Min.X, at, c.Max.X, at)
}
