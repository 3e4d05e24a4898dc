// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package grid

import "weft/examples/heat/internal/kernel"

// Grid is the part of the matrix that one rank computes, with one row or column more on each side:
// the border of the matrix, or, above and below, the ghost rows that hold copies of the neighbours'
// edge rows.
//
// Row 0 and row Rows+1 are the outer rows, column 0 and column Cols+1 the outer columns.
type Grid struct {
	Layout
	Rank   int
	Stride int       // elements from one row to the next, at least Cols+2
	Cells  []float64 // (RankRows+2) rows of Stride elements
}

// New makes the grid of a rank with everything 0.
func New(l Layout, rank int) *Grid {
	g := &Grid{Layout: l, Rank: rank, Stride: stride(l.Cols + 2)}
	g.Cells = make([]float64, (l.RankRows()+2)*g.Stride)
	return g
}

// stride pads a row of n elements. Rows start at cache lines relative to each other, so that blocks
// side by side share lines only at their common edge, and the same column of neighbouring rows is
// never near a multiple of 4 KiB apart, which would put all of them into the same few cache sets
// and make the processor take a load from one for a load of what it has just stored to the other.
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

// At is the index of a cell in Cells.
func (g *Grid) At(row, col int) int { return row*g.Stride + col }

// Row is the slice of the n cells from (row, col) on.
func (g *Grid) Row(row, col, n int) []float64 {
	at := g.At(row, col)
	return g.Cells[at : at+n : at+n]
}

// Block is the rectangle of the block in block row r and block column c, counted from 0.
func (g *Grid) Block(r, c int) kernel.Rect {
	return kernel.Rect{
		Row: 1 + r*g.RowBlock, Col: 1 + c*g.ColBlock,
		Rows: g.RowBlock, Cols: g.ColBlock,
	}
}

// First and Last say whether the rank has the upper and the lower border of the matrix.
func (g *Grid) First() bool { return g.Rank == 0 }

// Last is like First for the lower border.
func (g *Grid) Last() bool { return g.Rank == g.Ranks-1 }

// Sweep makes one time step of the whole grid, sequentially.
func (g *Grid) Sweep(k kernel.Func) {
	k(g.Cells, g.Stride, kernel.Rect{Row: 1, Col: 1, Rows: g.RankRows(), Cols: g.Cols})
}
