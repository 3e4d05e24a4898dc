// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package grid

import (
	"fmt"
	"math"
)

// Difference is the first cell, in row-major order, in which a result differs from the sequential
// sweep. Rows and columns count from 1, without the border.
type Difference struct {
	Row, Col  int
	Got, Want float64
	Cells     int // number of differing cells
}

func (d *Difference) Error() string {
	return fmt.Sprintf("check failed: row %d, column %d differs from the sequential sweep: got %v (%#016x), want %v (%#016x); differing cells in all: %d",
		d.Row, d.Col, d.Got, math.Float64bits(d.Got), d.Want, math.Float64bits(d.Want), d.Cells)
}

// Compare compares got, the inner cells of the whole matrix in row-major order, with want, bit by
// bit. It returns nil if they are equal.
func Compare(got []float64, want *Grid) *Difference {
	var d *Difference
	for r := range want.Rows {
		w := want.Row(r+1, 1, want.Cols)
		g := got[r*want.Cols:][:want.Cols]
		for c := range w {
			if math.Float64bits(g[c]) == math.Float64bits(w[c]) {
				continue
			}
			if d == nil {
				d = &Difference{Row: r + 1, Col: c + 1, Got: g[c], Want: w[c]}
			}
			d.Cells++
		}
	}
	return d
}
