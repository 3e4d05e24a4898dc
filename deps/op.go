// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

// An Op is the operator of a reduction. It must be associative and commutative.
type Op[T any] struct {
	// Init gives a new private copy its neutral value: one that Combine changes nothing by. The
	// copy holds the zero value, or what an earlier use has left. Nil means the zero value.
	Init func(copy *T)

	// Combine merges the value at from into that at into, and may change the value at from. It must
	// not keep from.
	Combine func(into, from *T)

	// The same for many elements: predefined operators have loops without a call for each element.
	fillAll  func(s []T)
	mergeAll func(into, from []T)
}

func (op *Op[T]) check() {
	if op.Combine == nil {
		panic("deps: an operator without Combine; use Sum, Prod, Min, Max and the like, or Op{Init: ..., Combine: ...}")
	}
}

func (op *Op[T]) init(copy *T) {
	if op.Init == nil {
		*copy = *new(T)
		return
	}
	op.Init(copy)
}

func (op *Op[T]) fill(s []T) {
	switch {
	case op.fillAll != nil:
		op.fillAll(s)
	case op.Init == nil:
		clear(s)
	default:
		for i := range s {
			op.Init(&s[i])
		}
	}
}

func (op *Op[T]) merge(into, from []T) {
	if op.mergeAll != nil {
		op.mergeAll(into, from)
		return
	}
	for i := range into {
		op.Combine(&into[i], &from[i])
	}
}

// Integer is the set of integer types.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Real is the set of ordered number types.
type Real interface {
	Integer | ~float32 | ~float64
}

// Number is the set of number types.
type Number interface {
	Real | ~complex64 | ~complex128
}

// Sum adds.
func Sum[T Number]() Op[T] {
	return Op[T]{Combine: func(into, from *T) { *into += *from }, mergeAll: func(into, from []T) {
		from = from[:len(into)]
		for i := range into {
			into[i] += from[i]
		}
	}}
}

// Prod multiplies.
func Prod[T Number]() Op[T] {
	return of(1, func(into, from *T) { *into *= *from }, func(into, from []T) {
		from = from[:len(into)]
		for i := range into {
			into[i] *= from[i]
		}
	})
}

// Min finds the smallest value; of floating-point numbers NaN if there is one. Its neutral value is
// the largest of the type, or +Inf.
func Min[T Real]() Op[T] {
	_, top := extremes[T]()
	return of(top, func(into, from *T) { *into = min(*into, *from) }, func(into, from []T) {
		from = from[:len(into)]
		for i := range into {
			into[i] = min(into[i], from[i])
		}
	})
}

// Max finds the largest value; of floating-point numbers NaN if there is one. Its neutral value is
// the smallest of the type, or -Inf.
func Max[T Real]() Op[T] {
	bottom, _ := extremes[T]()
	return of(bottom, func(into, from *T) { *into = max(*into, *from) }, func(into, from []T) {
		from = from[:len(into)]
		for i := range into {
			into[i] = max(into[i], from[i])
		}
	})
}

// And is the bitwise and.
func And[T Integer]() Op[T] { return of(^T(0), func(into, from *T) { *into &= *from }, nil) }

// Or is the bitwise or.
func Or[T Integer]() Op[T] { return of(0, func(into, from *T) { *into |= *from }, nil) }

// Xor is the bitwise exclusive or.
func Xor[T Integer]() Op[T] { return of(0, func(into, from *T) { *into ^= *from }, nil) }

// LogicalAnd is true if all values are.
func LogicalAnd[T ~bool]() Op[T] {
	return of(true, func(into, from *T) { *into = *into && *from }, nil)
}

// LogicalOr is true if at least one value is.
func LogicalOr[T ~bool]() Op[T] {
	return of(false, func(into, from *T) { *into = *into || *from }, nil)
}

// of makes an operator with a neutral value.
func of[T any](neutral T, combine func(into, from *T), mergeAll func(into, from []T)) Op[T] {
	return Op[T]{
		Init:    func(p *T) { *p = neutral },
		Combine: combine,
		fillAll: func(s []T) {
			for i := range s {
				s[i] = neutral
			}
		},
		mergeAll: mergeAll,
	}
}

// extremes returns the smallest and the largest value of T: for floating-point numbers, the
// infinities.
func extremes[T Real]() (bottom, top T) {
	top = 1
	for top*2+1 > top { // integers wrap around, others reach +Inf
		top = top*2 + 1
	}
	return -top - 1, top
}
