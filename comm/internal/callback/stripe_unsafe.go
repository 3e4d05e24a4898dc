//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import "unsafe"

const (
	// depthLimit is how many calls nest in a trampoline. A guess: deep enough to be rare.
	depthLimit = 8
	// stackShift is of which size pieces of stack have a trampoline each: a chain stays in few of
	// them, and goroutines, whose stacks begin at 8 KiB here, have others.
	stackShift = 14
)

// stripe returns which of n trampolines, a power of two, is the caller's: by where its stack lies.
func stripe(n int) int {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> stackShift
	return int(at * 0x9E3779B97F4A7C15 >> 32 & uint64(n-1))
}
