// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

// frames puts the return addresses of the stack into pcs, of which there are n, innermost first, up
// to the one that is above lo and not above hi, which it leaves out. It returns how many; -1 if the
// stack is not to be walked that way, as when there are frames of C on it.
//
// It follows the frame pointers that Go's compiler and assembler keep. Each has to be above the one
// before and within the stack of the goroutine, whose end is the second word of the runtime's
// record of it; so whatever is found in their place, nothing else is read.
//
//go:noescape
func frames(pcs *uintptr, n int, lo, hi uintptr) int
