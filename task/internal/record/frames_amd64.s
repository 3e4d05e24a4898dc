// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func frames(pcs *uintptr, n int, lo, hi uintptr) int
TEXT ·frames(SB), NOSPLIT, $0-40
	MOVQ pcs+0(FP), DI
	MOVQ n+8(FP), CX
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ (TLS), R10
	MOVQ 8(R10), R11 // the end of the goroutine's stack
	SUBQ $16, R11
	MOVQ SP, R12     // a frame is above the one before
	MOVQ BP, BX
	XORQ AX, AX

next:
	CMPQ AX, CX
	JGE  done
	CMPQ BX, R12
	JLS  bad
	CMPQ BX, R11
	JHI  bad
	MOVQ 8(BX), DX   // the return address beside the saved frame pointer
	CMPQ DX, R8
	JLS  keep
	CMPQ DX, R9
	JLS  done

keep:
	MOVQ DX, (DI)(AX*8)
	INCQ AX
	MOVQ BX, R12
	MOVQ (BX), BX
	JMP  next

bad:
	MOVQ $-1, AX

done:
	MOVQ AX, ret+32(FP)
	RET
