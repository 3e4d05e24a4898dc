//go:build amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// usable is whether the processor and the system support AVX2. Tests set it to false.
var usable = cpu.X86.HasAVX2

// kernel combines n elements, which are a multiple of block bytes.
type kernel func(dst, a, b unsafe.Pointer, n int)

const block = 128 // bytes that one iteration of the assembly loops combines

type element uint8

const (
	float64s element = iota
	float32s
	int64s
	int32s
	numElements
)

var kernels = [numElements][numOperations]kernel{
	float64s: {sumF64, prodF64, minF64, maxF64},
	float32s: {sumF32, prodF32, minF32, maxF32},
	int64s:   {sumI64, nil, minI64, maxI64},
	int32s:   {sumI32, prodI32, minI32, maxI32},
}

// start combines the first elements with vector instructions, and returns how many.
func start[T Number](op operation, dst, a, b []T) int {
	_, _ = dst[:len(a)], b[:len(a)]
	var e element
	switch any((*T)(nil)).(type) {
	case *float64:
		e = float64s
	case *float32:
		e = float32s
	case *int64:
		e = int64s
	case *int32:
		e = int32s
	default:
		return 0
	}
	k := kernels[e][op]
	var zero T
	n := len(a) &^ (block/int(unsafe.Sizeof(zero)) - 1)
	if n == 0 || !usable || k == nil {
		return 0
	}
	k(unsafe.Pointer(&dst[0]), unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), n)
	return n
}

//go:noescape
func sumF64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func prodF64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func minF64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func maxF64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func sumF32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func prodF32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func minF32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func maxF32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func sumI64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func minI64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func maxI64(dst, a, b unsafe.Pointer, n int)

//go:noescape
func sumI32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func prodI32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func minI32(dst, a, b unsafe.Pointer, n int)

//go:noescape
func maxI32(dst, a, b unsafe.Pointer, n int)
