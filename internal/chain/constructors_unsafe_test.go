// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "unsafe"

// The constructors of package deps, for the tests of this package.

func In[T any](p *T) Access          { return Object(p, ModeIn) }
func Out[T any](p *T) Access         { return Object(p, ModeOut) }
func InOut[T any](p *T) Access       { return Object(p, ModeInOut) }
func Concurrent[T any](p *T) Access  { return Object(p, ModeConcurrent) }
func Commutative[T any](p *T) Access { return Object(p, ModeCommutative) }

func (r Range) In() Access          { return r.Access(ModeIn) }
func (r Range) Out() Access         { return r.Access(ModeOut) }
func (r Range) InOut() Access       { return r.Access(ModeInOut) }
func (r Range) Concurrent() Access  { return r.Access(ModeConcurrent) }
func (r Range) Commutative() Access { return r.Access(ModeCommutative) }

type Op[T any] struct {
	Init    func(copy *T) // nil: the zero value
	Combine func(into, from *T)
}

func Sum[T int | int32 | int64 | byte]() Op[T] {
	return Op[T]{Combine: func(into, from *T) { *into += *from }}
}

func NewReduction[T any](x *T, op Op[T]) *Reduced {
	r := new(Reduced)
	r.Init(Object(x, ModeReduce), 1, ops(unsafe.Slice(x, 1), op))
	return r
}

func NewSliceReduction[T any](s []T, op Op[T]) *Reduced {
	r := new(Reduced)
	object := Object(r, ModeReduce)
	if len(s) > 0 {
		object = Object(&s[0], ModeReduce)
	}
	r.Init(object, len(s), ops(s, op))
	return r
}

func ops[T any](s []T, op Op[T]) Ops {
	return Ops{
		Fresh: func() any { return Apart[T](len(s)) },
		Init: func(c any) {
			for i := range c.([]T) {
				if c.([]T)[i] = *new(T); op.Init != nil {
					op.Init(&c.([]T)[i])
				}
			}
		},
		Combine: func(c any, lo, hi int) {
			for i := lo; i < hi; i++ {
				op.Combine(&s[i], &c.([]T)[i])
			}
		},
	}
}

// Private returns the value in a copy of an object.
func Private[T any](c *Copy) *T { return &c.v.([]T)[0] }
