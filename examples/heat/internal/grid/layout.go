// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package grid

// Layout is the partition of the matrix: into ranks by rows, and within a rank into blocks. The
// border around the matrix does not count as rows or columns.
type Layout struct {
	Rows, Cols         int // of the whole matrix
	Ranks              int
	RowBlock, ColBlock int // cells per block
}

// Round raises rows and cols to the next multiples of whole blocks on every rank.
func Round(rows, cols, ranks, rowBlock, colBlock int) Layout {
	up := func(n, unit int) int { return (n + unit - 1) / unit * unit }
	return Layout{
		Rows: up(rows, ranks*rowBlock), Cols: up(cols, colBlock),
		Ranks: ranks, RowBlock: rowBlock, ColBlock: colBlock,
	}
}

// RankRows is the number of rows of each rank.
func (l Layout) RankRows() int { return l.Rows / l.Ranks }

// BlockRows is the number of blocks of a rank from top to bottom.
func (l Layout) BlockRows() int { return l.RankRows() / l.RowBlock }

// BlockCols is the number of blocks from left to right.
func (l Layout) BlockCols() int { return l.Cols / l.ColBlock }

// Blocks is the number of blocks of a rank.
func (l Layout) Blocks() int { return l.BlockRows() * l.BlockCols() }

// BlockCells is the number of cells of a block.
func (l Layout) BlockCells() int { return l.RowBlock * l.ColBlock }

// RankCells is the number of cells of a rank.
func (l Layout) RankCells() int { return l.RankRows() * l.Cols }
