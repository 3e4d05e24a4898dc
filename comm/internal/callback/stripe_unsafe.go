//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import "unsafe"

const (
	// depthLimit is how many calls nest in a trampoline. A guess: deep enough to be rare.
	depthLimit = 8
	// Each 1<<stackShift bytes of stack addresses share a trampoline. The stack of a chain reaches
	// few of these ranges. Stacks begin with 8 KiB, so goroutines mostly have different ranges.
	stackShift = 14
)

// stripe returns which of n trampolines the caller uses, by the address of its stack. n is a power
// of two.
func stripe(n int) int {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> stackShift
	return int(at * 0x9E3779B97F4A7C15 >> 32 & uint64(n-1))
}
