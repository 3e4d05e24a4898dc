// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"unsafe"

	"weft/deps"
)

// Tasks and Iterations are types of the program's packages too. If they named instances of generic types, or had methods that
// do, the compiler would put the code of these into each such package, and with it back into the race detector in lint mode:
// see deps/hidden_unsafe.go.

// hidden is a *deps.Reductions, or nil while that would be empty.
type hidden struct{ p unsafe.Pointer }

// none reports whether there has never been a list. It spares most tasks the way through one.
func (h hidden) none() bool { return h.p == nil }

// What is read where there is no list. Nobody adds to these.
var (
	noShares deps.Reductions[share]
	noGroups deps.Reductions[*deps.Group]
	noneOpen deps.Reductions[*recordedGroup]
)

func sharesOf(m *more) *deps.Reductions[share]              { return reductionsOf(m.shares, &noShares) }
func groupsOf(m *more) *deps.Reductions[*deps.Group]        { return reductionsOf(m.groups, &noGroups) }
func openOf(it *Iteration) *deps.Reductions[*recordedGroup] { return reductionsOf(it.open, &noneOpen) }

func reductionsOf[V any](h hidden, none *deps.Reductions[V]) *deps.Reductions[V] {
	if h.p == nil {
		return none
	}
	return (*deps.Reductions[V])(h.p)
}

// addReduction adds v for r to the list of h.
func addReduction[V any](h *hidden, r *deps.Reduced, v V) {
	if h.p == nil {
		h.p = unsafe.Pointer(new(deps.Reductions[V]))
	}
	(*deps.Reductions[V])(h.p).Add(r, v)
}
