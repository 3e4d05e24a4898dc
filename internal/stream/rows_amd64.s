//go:build !race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Each iteration of the inner loop copies a cache line. A prefetch of unmapped memory does no harm.
// Two loads of 32 bytes instead of four of 16 are not faster: memory is the limit.

// func copyRows(dst, src unsafe.Pointer, rows, size, stride, ahead int)
TEXT ·copyRows(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), DX
	MOVQ rows+16(FP), BX
	MOVQ size+24(FP), R8
	MOVQ stride+32(FP), R9
	MOVQ ahead+40(FP), R10

row:
	MOVQ DX, SI
	MOVQ R8, CX

next:
	PREFETCHT0 (SI)(R10*1)
	MOVOU      0(SI), X0
	MOVOU      16(SI), X1
	MOVOU      32(SI), X2
	MOVOU      48(SI), X3
	MOVNTO     X0, 0(DI)
	MOVNTO     X1, 16(DI)
	MOVNTO     X2, 32(DI)
	MOVNTO     X3, 48(DI)
	ADDQ       $64, SI
	ADDQ       $64, DI
	SUBQ       $64, CX
	JNE        next
	ADDQ       R9, DX
	DECQ       BX
	JNE        row
	SFENCE     // non-temporal stores are not ordered otherwise
	RET
