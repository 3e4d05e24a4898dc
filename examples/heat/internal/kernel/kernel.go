// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// Rect is a rectangle of cells of a matrix: the first row and column, and how many of each.
type Rect struct {
	Row, Col   int
	Rows, Cols int
}

// Func updates the cells of r once, in row-major order of dependence, in the matrix m whose rows
// are stride elements apart. The cells around r (one on each side) are read. It panics if they are
// not inside m.
type Func func(m []float64, stride int, r Rect)
