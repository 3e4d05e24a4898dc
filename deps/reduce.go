// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import "weft/internal/chain"

// A Reduction lets tasks contribute to an object at the same time, each to a private copy, by
// an operator like [Sum]:
//
//	sum := deps.NewReduction(&x, deps.Sum[float64]())
//	for _, part := range parts {
//		t.Spawn(func(t *task.Task) error {
//			*task.Local(t, sum) += total(part)
//			return nil
//		}, sum.Reduce(), deps.In(&part[0]))
//	}
//	t.Spawn(use, deps.In(&x)) // sees the value of before and all contributions
//
// Tasks that name the same Reduction take part in the same reduction: they form a reduction group.
// The group ends when a sibling accesses the object otherwise (another Reduction of the same object
// counts as otherwise), or when the task that made the participants waits, gives the object up, or
// ends. Participants do not wait for the object's earlier accesses. The group's copies are combined
// with the object's value when the earlier accesses and all participants are over, and before later
// accesses start.
//
// A participant may wait, block and bind events: its copy is private until it gives the access up.
// A child that names its parent's Reduction takes part in the same reduction, so a tree of tasks
// can contribute without a wait; a parent that does not contribute itself declares the access weak.
//
// The order in which copies are combined is not defined, so the operator has to be associative and
// commutative. The sum of floating-point numbers is not quite: it may differ in the last bits from
// run to run. If that matters, reduce integers, or fix the order by InOut.
//
// A Reduction may be used any number of times, also by several runtimes, and keeps its private
// copies for the next time. It must not be copied.
type Reduction[T any] struct {
	reduced chain.Reduced
	x       *T
}

// NewReduction returns a reduction of the object at x by op. It panics if x is nil or points to a
// zero-size object, as [In] does, and if op has no Combine.
func NewReduction[T any](x *T, op Op[T]) *Reduction[T] {
	op.check()
	r := &Reduction[T]{x: x}
	r.reduced.Init(chain.Object(x, chain.ModeReduce), 1, chain.Ops{
		Fresh:   func() any { return &chain.Apart[T](1)[0] },
		Init:    func(c any) { op.init(c.(*T)) },
		Combine: func(c any, _, _ int) { op.Combine(x, c.(*T)) },
	})
	return r
}

// Reduce declares that the task contributes to the reduction. The task does not wait for earlier
// accesses to the object, and its body must not touch the object: package task has Local for the
// private copy. A task has no other access to the object.
//
// Weak: the task does not contribute itself, but its descendants may.
func (r *Reduction[T]) Reduce() Access { return Access{r.reduced.Access()} }

// A SliceReduction is a [Reduction] of the elements of a slice, each by the same operator. The
// private copy is a slice of the same length.
type SliceReduction[T any] struct {
	reduced chain.Reduced
	s       []T
}

// NewSliceReduction returns a reduction of the elements of s by op. As an object, s is named by its
// first element: reductions of slices that overlap but begin at different elements are combined in
// no order, unless a sibling has named a range before (see Ranges in the package's description). An
// empty slice is legal, and no other access concerns it. It panics if op has no Combine, or if T
// has size zero.
func NewSliceReduction[T any](s []T, op Op[T]) *SliceReduction[T] {
	op.check()
	chain.Slice(s) // refuses elements of size zero
	s = s[:len(s):len(s)]
	r := &SliceReduction[T]{s: s}
	object := chain.Object(&r.reduced, chain.ModeReduce)
	if len(s) > 0 {
		object = chain.Object(&s[0], chain.ModeReduce)
	}
	r.reduced.Init(object, len(s), chain.Ops{
		Fresh:   func() any { return chain.Apart[T](len(s)) },
		Init:    func(c any) { op.fill(c.([]T)) },
		Combine: func(c any, lo, hi int) { op.merge(s[lo:hi], c.([]T)[lo:hi]) },
	})
	return r
}

// Reduce declares that the task contributes to the reduction: see [Reduction.Reduce].
func (r *SliceReduction[T]) Reduce() Access { return Access{r.reduced.Access()} }

// A Reducer is a *[Reduction] or a *[SliceReduction]. P is the type that its participants get: a *T
// or a []T.
type Reducer[P any] interface {
	Reduce() Access
	result() P
}

func (r *Reduction[T]) result() *T       { return r.x }
func (r *SliceReduction[T]) result() []T { return r.s }
