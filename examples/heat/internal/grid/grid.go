// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package grid

import "weft/examples/heat/internal/kernel"

// Grid is the part of the matrix that one rank computes, with one more row or column on each side:
// the border of the matrix or, above and below, ghost rows, which are copies of the neighbours'
// edge rows.
//
// Row 0 and row RankRows+1 are the outer rows, column 0 and column Cols+1 the outer columns.
type Grid struct {
	Layout
	Rank   int
	Stride int       // elements from one row to the next, at least Cols+2
	Cells  []float64 // (RankRows+2) rows of Stride elements
}

// New returns the grid of a rank, filled with zeros.
func New(l Layout, rank int) *Grid {
	g := &Grid{Layout: l, Rank: rank, Stride: stride(l.Cols + 2)}
	g.Cells = make([]float64, (l.RankRows()+2)*g.Stride)
	return g
}

// stride pads a row of n elements. Equal columns of all rows have the same offset in a cache line,
// so neighbouring blocks share lines only at their common edge. Neighbouring rows are never near a
// multiple of 4 KiB apart: otherwise they would use the same few cache sets, and the processor
// would mistake a load from one row for a load of what it has just stored to another.
func stride(n int) int {
	const line, page, gap = 8, 512, 24 // elements of 8 bytes; gap: measured with the kernels
	n = (n + line - 1) / line * line
	switch off := n % page; {
	case off < gap:
		n += gap - off
	case off > page-gap:
		n += page - off + gap
	}
	return n
}

// At returns the index of a cell in Cells.
func (g *Grid) At(row, col int) int { return row*g.Stride + col }

// Row returns the slice of n cells that begins at (row, col).
func (g *Grid) Row(row, col, n int) []float64 {
	at := g.At(row, col)
	return g.Cells[at : at+n : at+n]
}

// Block returns the rectangle of the block in block row r and block column c, which count from 0.
func (g *Grid) Block(r, c int) kernel.Rect {
	return kernel.Rect{
		Row: 1 + r*g.RowBlock, Col: 1 + c*g.ColBlock,
		Rows: g.RowBlock, Cols: g.ColBlock,
	}
}

// First reports whether the rank has the upper border of the matrix.
func (g *Grid) First() bool { return g.Rank == 0 }

// Last reports whether the rank has the lower border of the matrix.
func (g *Grid) Last() bool { return g.Rank == g.Ranks-1 }

// Sweep makes one time step of the whole grid, sequentially.
func (g *Grid) Sweep(k kernel.Func) {
	k(g.Cells, g.Stride, kernel.Rect{Row: 1, Col: 1, Rows: g.RankRows(), Cols: g.Cols})
}
