// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel has the cell update of the heat benchmark: one Gauss–Seidel sweep over a rectangle
// of a row-major matrix, in place.
//
// Every cell becomes 0.25*(((N+S)+E)+W). This sweep has already updated the neighbours N and W, and
// not yet S and E. The order of the operations is part of the contract: only one addition and one
// multiplication are on the chain that runs from west to east, and all kernels give the same bits
// as Naive.
//
// The kernels:
//
//	Naive   one row after the other, exactly as in the formula. Each cell reads its western
//	        neighbour from memory just after the store, and the processor waits for the latency.
//	Row     the same with the western neighbour in a register: still one chain, of an addition and a
//	        multiplication per cell.
//	Rows8   eight rows in flight. Row i is two columns behind row i-1, so that in each step the
//	        eight rows update cells that do not depend on each other: eight chains instead of one.
//
// Rows8 is fast because of this: in step k, row i updates column k-2i.
//
//	W(i) was computed by row i in step k-1: it is in a register.
//	N(i) was computed by row i-1 in step k-2: it is in a register too, as the value before row
//	     i-1's western one.
//	E(i) and S(i) are loaded, as operands of the additions.
//
// So a cell costs three additions, a multiplication, a move between registers and a store: the
// limit is two additions per cycle. Within a step, rows are processed from the last to the first,
// so that a value is read before it is replaced.
//
// If rows are a multiple of 4 KiB apart, the processor confuses stores and loads of neighbouring
// rows, which halves the speed. Package grid pads its rows to prevent that.
//
// A kernel keeps no state. Kernels may run on disjoint rectangles at once, if nothing writes their
// borders.
package kernel
