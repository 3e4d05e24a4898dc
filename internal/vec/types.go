// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package vec combines slices of numbers element by element, with vector instructions where the
// processor has them.
//
//	vec.Sum(dst, a, b)   // dst[i] = a[i] + b[i]
//
// The slices must be equally long; dst may be a or b, but must not overlap them otherwise. Every
// element is what the plain loop computes, bit for bit, because elements do not depend on each
// other: that of a float that is not a number too, up to which of two such operands' bits it takes.
// Min and Max are those of the language: not a number if either operand is, and -0 is less than 0.
//
// On amd64 with AVX2 the kinds float32, float64, int32 and int64 go through 256-bit registers
// (int64 for Sum, Min and Max, float32 and float64 for Sum and Prod, and Min and Max). Elsewhere,
// and for other types, it is a loop.
package vec

// Ordered is what can be compared.
type Ordered interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Number is what can be added and multiplied.
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
