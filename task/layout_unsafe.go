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

// prefetch prefetches the three cache lines of t that its creator writes.
func prefetch(t *Task) { xatomic.PrefetchW3(unsafe.Pointer(t)) }

// codeOf returns the address of fn's code, zero if fn is nil. It replaces reflect, whose reads of
// what the creator has written the race detector would see.
func codeOf(fn func(*Task) error) uintptr {
	if fn == nil {
		return 0
	}
	return **(**uintptr)(unsafe.Pointer(&fn))
}

// A deps.Access is a struct of one chain.Access, which users cannot name (TestAccessIsOneField).

// accesses returns list as the type that the engine takes, in the same memory. (unsafe.Slice would
// check its length.)
func accesses(list []deps.Access) []chain.Access { return *(*[]chain.Access)(unsafe.Pointer(&list)) }

// declared returns list as the type that users see, in the same memory.
func declared(list []chain.Access) []deps.Access { return *(*[]deps.Access)(unsafe.Pointer(&list)) }

// accessOf returns a as the type that the engine takes.
func accessOf(a deps.Access) chain.Access { return *(*chain.Access)(unsafe.Pointer(&a)) }

// Programs import Task and Iteration. If these types named instances of generic types, or had
// methods that do, the compiler would put the code of the instances into each importing package,
// and in lint mode the race detector would see it again: see internal/chain/layout_unsafe.go.

// hidden is a *chain.Reductions; nil until an element is added.
type hidden struct{ p unsafe.Pointer }

// none reports whether there has never been a list, which is so for most tasks.
func (h hidden) none() bool { return h.p == nil }

// The lists that are read if there is none. They stay empty.
var (
	noShares chain.Reductions[share]
	noGroups chain.Reductions[*chain.ReductionGroup]
	noneOpen chain.Reductions[*recordedGroup]
)

func sharesOf(m *more) *chain.Reductions[share] { return reductionsOf(m.shares, &noShares) }
func groupsOf(m *more) *chain.Reductions[*chain.ReductionGroup] {
	return reductionsOf(m.groups, &noGroups)
}
func openOf(it *Iteration) *chain.Reductions[*recordedGroup] { return reductionsOf(it.open, &noneOpen) }

func reductionsOf[V any](h hidden, none *chain.Reductions[V]) *chain.Reductions[V] {
	if h.p == nil {
		return none
	}
	return (*chain.Reductions[V])(h.p)
}

// addReduction adds v for r to the list of h.
func addReduction[V any](h *hidden, r *chain.Reduced, v V) {
	if h.p == nil {
		h.p = unsafe.Pointer(new(chain.Reductions[V]))
	}
	(*chain.Reductions[V])(h.p).Add(r, v)
}
