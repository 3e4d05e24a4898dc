// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package grid is the matrix of the heat benchmark as the ranks see it: how it is cut into ranks
// and blocks, the memory of one rank, its initial state, and the sequential sweep that every
// parallel run must equal to the bit.
//
// A Grid has no locks. Who may touch which cells when is for the solver to order.
package grid
