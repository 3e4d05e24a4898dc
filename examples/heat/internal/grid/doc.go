// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package grid is the matrix of the heat benchmark: its partition into ranks and blocks, the memory
// of one rank, the initial state, and the sequential sweep that every parallel run must equal bit
// by bit.
//
// A Grid has no locks. The solver orders accesses to its cells.
package grid
