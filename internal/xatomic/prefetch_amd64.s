// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func PrefetchW(p unsafe.Pointer)
TEXT ·PrefetchW(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	RET

// func PrefetchW2(p unsafe.Pointer)
TEXT ·PrefetchW2(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08             // PREFETCHW (AX)
	BYTE $0x0F; BYTE $0x0D; BYTE $0x48; BYTE $0x40 // PREFETCHW 64(AX)
	RET

// func PrefetchW3(p unsafe.Pointer)
TEXT ·PrefetchW3(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08             // PREFETCHW (AX)
	BYTE $0x0F; BYTE $0x0D; BYTE $0x48; BYTE $0x40 // PREFETCHW 64(AX)
	SUBQ $-128, AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08
	RET

// func PrefetchW1st3rd(p unsafe.Pointer)
TEXT ·PrefetchW1st3rd(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX)
	SUBQ $-128, AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08
	RET
