// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package grid

import "math"

// Source is a heat source: it warms the cells of the border within its Range.
type Source struct {
	Row, Col    float64 // position as a fraction of the matrix, 0 to 1
	Range       float64 // distance at which its effect ends, in the same unit, above 0
	Temperature float64 // added at distance 0, falling linearly to nothing at Range
}

// Init sets the initial state: 0 inside, and the border as the sources warm it. Corners are part of
// the upper and lower border.
func (g *Grid) Init(sources []Source) {
	clear(g.Cells)
	rows := g.RankRows()
	if g.First() {
		for c := range g.Cols + 2 {
			g.Cells[g.At(0, c)] = warmth(sources, 0, fraction(c, g.Cols))
		}
	}
	if g.Last() {
		for c := range g.Cols + 2 {
			g.Cells[g.At(rows+1, c)] = warmth(sources, 1, fraction(c, g.Cols))
		}
	}
	for r := 1; r <= rows; r++ {
		row := fraction(g.Rank*rows+r, g.Rows)
		g.Cells[g.At(r, 0)] = warmth(sources, row, 0)
		g.Cells[g.At(r, g.Cols+1)] = warmth(sources, row, 1)
	}
}

// fraction is the position of outer index i, 0 to n+1, as a fraction between 0 and 1.
func fraction(i, n int) float64 { return float64(i) / float64(n+1) }

// warmth is the sum of the effects of all sources at a point.
func warmth(sources []Source, row, col float64) float64 {
	var sum float64
	for _, s := range sources {
		// The conversions forbid fused multiply-add, so that the result is the same on all
		// architectures.
		d := math.Sqrt(float64((row-s.Row)*(row-s.Row)) + float64((col-s.Col)*(col-s.Col)))
		if d <= s.Range {
			sum += float64((s.Range - d) / s.Range * s.Temperature)
		}
	}
	return sum
}
