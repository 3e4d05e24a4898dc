// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// Rect is a rectangle of cells of a matrix: the first row and column, and how many of each.
type Rect struct {
	Row, Col   int
	Rows, Cols int
}

// Func updates the cells of r once, in an order equivalent to row-major order, in the matrix m
// whose rows are stride elements apart. It reads the cells around r (one on each side). It panics
// if they are not inside m.
type Func func(m []float64, stride int, r Rect)
