// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

// frames writes the return addresses of the stack, innermost first, to the n words at pcs. It stops
// before the first address above lo and not above hi. It returns how many addresses it wrote; -1 if
// the stack cannot be walked by frame pointers, for example because it has frames of C.
//
// It follows the frame pointers that Go's compiler and assembler keep. Each must be above the one
// before, and within the goroutine's stack, whose end is the second word of the Go runtime's record
// of the goroutine. So it reads only the stack, even if a frame pointer is wrong.
//
//go:noescape
func frames(pcs *uintptr, n int, lo, hi uintptr) int
