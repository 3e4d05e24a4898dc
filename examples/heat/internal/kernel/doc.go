// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel holds the cell update of the heat benchmark: one Gauss–Seidel sweep over a
// rectangle of a row-major matrix, in place.
//
// Every cell becomes 0.25*(((N+S)+E)+W), where N and W are neighbours that this sweep has updated
// already and S and E are neighbours that it has not. The order of the operations is part of the
// contract: only one addition and one multiplication lie on the chain that runs from west to east,
// and all kernels give the same bits as Naive.
//
// The kernels:
//
//	Naive   one row after the other, as the formula reads. Each cell reads its western neighbour from memory
//	        just after that was written, and the processor idles on the latency.
//	Row     the same with the western neighbour in a register: still one chain, of an addition and a
//	        multiplication per cell.
//	Rows8   eight rows in flight. Row i runs two columns behind row i-1, so that at any step the eight rows work
//	        on cells which do not depend on each other: eight chains instead of one.
//
// What makes the last one fast: at step k row i updates column k-2i.
//
//	W(i) is what row i computed in step k-1: in a register.
//	N(i) is what row i-1 computed in step k-2: in a register too, as the value before row i-1's western one.
//	E(i) and S(i) are loaded; they fold into the additions.
//
// So per cell three additions, a multiplication, a move between registers and a store: it runs at
// the bound set by two additions per cycle. Rows are taken from the last to the first within a
// step, so that a value is read before it is replaced.
//
// Rows that are a multiple of 4 KiB apart make stores and loads of neighbouring rows look alike to
// the processor and halve the speed; package grid pads its rows so that they are not.
//
// A kernel keeps no state and may run on disjoint rectangles at once, if their borders are not
// being written.
package kernel
