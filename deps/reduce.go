// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import "fmt"

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
// Tasks that name the same Reduction take part in the same reduction: they form a group until a sibling accesses the
// object otherwise (another Reduction of the same object is otherwise as well), or until the task that made them waits, gives the object
// up, or ends. Participants do not wait for anything that the object's earlier users do. The group's copies are combined with what
// the object has then when those and all participants are over, and before what comes after the group starts.
//
// A participant may wait, block and bind events: its copy is its own until it gives the access up. A child that names the Reduction of its parent
// takes part in the same reduction, so a tree of tasks can contribute without a wait; a parent that does not contribute itself
// declares the access weak.
//
// The order in which copies are combined is not defined, so the operator has to be associative and commutative. The sum of floating-point
// numbers is not quite: it may differ in the last bits from run to run. Where that matters reduce integers, or
// give the order by InOut.
//
// A Reduction may be used any number of times, by several runs too, and keeps its private copies for the
// next time. It must not be copied.
type Reduction[T any] struct {
	reduced Reduced
	x       *T
	op      Op[T]
}

// NewReduction returns a reduction of the object at x by op. It panics if x is nil or points to a
// zero-size object, as [In] does, and if op has no Combine.
func NewReduction[T any](x *T, op Op[T]) *Reduction[T] {
	op.check()
	r := &Reduction[T]{x: x, op: op}
	r.reduced.setUp(object(x, ModeReduce).ptr, 1, size[T](), r)
	return r
}

// Reduce declares that the task contributes to the reduction. It waits for nothing on behalf of the object, which the
// body must not touch: package task has Local for its private copy. A task has no other access to the object.
//
// Weak: the task does not contribute itself, but its descendants may.
func (r *Reduction[T]) Reduce() Access { return r.reduced.access() }

// A SliceReduction is a [Reduction] of the elements of a slice, each by the same operator. The
// private copy is a slice of the same length.
type SliceReduction[T any] struct {
	reduced Reduced
	s       []T
	op      Op[T]
}

// NewSliceReduction returns a reduction of the elements of s by op. As an object, s is named by its first element: reductions of
// slices that overlap but begin at different elements are combined in no order, unless a sibling has named a range before (see
// Ranges in the package's description). An empty slice is legal, and no other access concerns it. It panics if op has no
// Combine, or if T has size zero.
func NewSliceReduction[T any](s []T, op Op[T]) *SliceReduction[T] {
	op.check()
	if size[T]() == 0 {
		badElement(fmt.Sprintf("%T", s))
	}
	s = s[:len(s):len(s)]
	r := &SliceReduction[T]{s: s, op: op}
	key := object(&r.reduced, ModeReduce).ptr
	if len(s) > 0 {
		key = object(&s[0], ModeReduce).ptr
	}
	r.reduced.setUp(key, len(s), uintptr(len(s))*size[T](), r)
	return r
}

// Reduce declares that the task contributes to the reduction: see [Reduction.Reduce].
func (r *SliceReduction[T]) Reduce() Access { return r.reduced.access() }

// A Reducer is a *[Reduction] or a *[SliceReduction]. P is what its participants get: a *T
// or a []T.
type Reducer[P any] interface {
	Reduce() Access
	private(c *Copy) P
}

// Private returns what is in c, a copy that was made for r.
func Private[P any](r Reducer[P], c *Copy) P { return r.private(c) }

func (r *Reduction[T]) private(c *Copy) *T       { return c.v.(*T) }
func (r *SliceReduction[T]) private(c *Copy) []T { return *c.v.(*[]T) }

// cacheLine is what copies are kept apart by, so that two participants do not write the same line (some
// processors fetch two at a time).
const cacheLine = 128

type padded[T any] struct {
	_ [cacheLine]byte
	v T
	_ [cacheLine]byte
}

func (r *Reduction[T]) fresh() any { return &new(padded[T]).v }

func (r *Reduction[T]) init(v any) { r.op.fill(one(v.(*T))) }

func (r *Reduction[T]) combine(v any, _, _ int) { r.op.merge(one(r.x), one(v.(*T))) }

func (r *SliceReduction[T]) fresh() any {
	gap := int((cacheLine-1)/size[T]()) + 1
	mem := make([]T, gap+len(r.s)+gap)
	s := mem[gap : gap+len(r.s) : gap+len(r.s)]
	return &s
}

func (r *SliceReduction[T]) init(v any) { r.op.fill(*v.(*[]T)) }

func (r *SliceReduction[T]) combine(v any, lo, hi int) {
	r.op.merge(r.s[lo:hi], (*v.(*[]T))[lo:hi])
}
