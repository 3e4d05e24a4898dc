// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"unsafe"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/xatomic"
)

// fromNode returns the task whose dependency node n is. Every node that weft's
// runtime registers is the first field of a Task.
func fromNode(n *chain.Node) *Task { return (*Task)(unsafe.Pointer(n)) }

// prefetch asks for the lines of t that its creator writes.
func prefetch(t *Task) { xatomic.PrefetchW3(unsafe.Pointer(t)) }

// codeOf returns where the code of fn is, zero if it is nil, as reflect does, which the race detector sees reading what the
// creator has written.
func codeOf(fn func(*Task) error) uintptr {
	if fn == nil {
		return 0
	}
	return **(**uintptr)(unsafe.Pointer(&fn))
}

// A deps.Access is a struct of one chain.Access, which users cannot name (TestAccessIsOneField).

// accesses returns list as the engine takes it: the same memory. (unsafe.Slice would check its length.)
func accesses(list []deps.Access) []chain.Access {
	return *(*[]chain.Access)(unsafe.Pointer(&list))
}

// declared returns list as users see it: the same memory.
func declared(list []chain.Access) []deps.Access {
	return *(*[]deps.Access)(unsafe.Pointer(&list))
}

// accessOf returns a as the engine takes it.
func accessOf(a deps.Access) chain.Access { return *(*chain.Access)(unsafe.Pointer(&a)) }
