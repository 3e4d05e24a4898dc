// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"runtime"

	"weft/internal/xatomic"
)

// Reduced is a reduction as a runtime sees it, without its type; package deps has the typed form
// for users. To the engine a Reduce access is a weak InOut: its task does not wait, and later
// accesses wait for it. The runtime does the rest: it hands out private copies, and spawns a task
// that combines them (package task, README.md, "Reductions").
type Reduced struct {
	// Constant after Init.
	key  object  // names the object
	n    int     // elements of a copy
	size uintptr // of the object, in bytes
	ops  Ops
	site uintptr // program counter of the call that made it

	kept struct { // closed groups, for reuse
		mu     xatomic.Mutex
		groups []*ReductionGroup // +checklocks:mu
	}
}

// Ops are the operations of a reduction on its private copies.
type Ops struct {
	Fresh   func() any                 // returns memory for a copy
	Init    func(copy any)             // gives it the neutral value
	Combine func(copy any, lo, hi int) // merges it into the elements lo to hi of the object
}

// Init makes r the reduction of n elements, the first of which is object. The site of r is the
// caller of Init's caller.
func (r *Reduced) Init(object Access, n int, ops Ops) {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	r.key, r.n, r.size, r.ops, r.site = object.ptr, n, uintptr(n)*object.size(), ops, pc[0]
}

// InOut returns the access of the combining task: to all of the object.
func (r *Reduced) InOut() Access {
	return Access{ptr: r.key, how: how{mode: ModeInOut}, sizeHi: uint16(r.size >> 32), sizeLo: uint32(r.size)}
}

// Concurrent returns an access that orders tasks which contribute to copies with tasks that access
// the object.
func (r *Reduced) Concurrent() Access {
	a := r.InOut()
	a.mode = ModeConcurrent
	return a
}

// Len returns the number of elements of the object.
func (r *Reduced) Len() int { return r.n }

// Site returns the program counter of the call that made the reduction.
func (r *Reduced) Site() uintptr { return r.site }

// Meets reports whether a names the object of r, or some of its memory.
func (r *Reduced) Meets(a Access) bool {
	if a.object() == r.key && !a.isRange() {
		return true
	}
	lo, hi := a.extent()
	at := addr(r.key)
	return max(lo, at) < min(hi, at+r.size)
}

// clash says why x, one of list, cannot be combined with a, an earlier access of the same task to
// the same object; "" if it can.
func clash(a *access, x Access, list []Access) string {
	got := modeOf(a.state.Load())
	if got != ModeReduce && x.mode != ModeReduce {
		return ""
	}
	if got != x.mode {
		return fmt.Sprintf("deps: a task accesses object %p as %v and as %v; a reduction is the only access of its task to the object", x.object(), got, x.mode)
	}
	for _, y := range list {
		if y.mode == ModeReduce && y.ptr != x.ptr && y.object() == x.object() {
			return "deps: " + x.Reduced().Overlap(y.Reduced())
		}
	}
	return ""
}

// extent returns the bytes by which r is found. The reduction of an empty slice has one byte, its
// own.
func (r *Reduced) extent() (lo, hi uintptr) {
	lo = addr(r.key)
	return lo, lo + max(r.size, 1)
}

// Overlap returns the error text for a task that would take part in r and other, which have memory
// in common.
func (r *Reduced) Overlap(other *Reduced) string {
	if r.key == other.key {
		return fmt.Sprintf("a task takes part in two reductions of object %p; a reduction is the only access of its task to the object", r.key)
	}
	return fmt.Sprintf("a task takes part in reductions of objects %p and %p, which have memory in common; a reduction is the only access of its task to the object", other.key, r.key)
}
