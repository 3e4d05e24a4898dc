// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package vec combines slices of numbers element by element, with vector instructions where the
// processor has them.
//
//	vec.Sum(dst, a, b)   // dst[i] = a[i] + b[i]
//
// The slices must be equally long; dst may be a or b, but must not overlap them otherwise. Elements
// do not depend on each other, so every element is what the plain loop computes, bit for bit. One
// exception: where both operands are NaN, the bits may be those of either. Min and Max are those of
// the language: NaN if either operand is NaN, and -0 is less than 0.
//
// On amd64 with AVX2, Sum, Min and Max use 256-bit registers for float32, float64, int32 and int64,
// and Prod for float32, float64 and int32. Elsewhere, and for other types, they are loops.
package vec

// Ordered is the types that can be compared.
type Ordered interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Number is the types that can be added and multiplied.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

type operation uint8

const (
	sum operation = iota
	prod
	least
	greatest
	numOperations
)
