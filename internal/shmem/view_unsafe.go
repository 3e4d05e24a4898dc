// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"fmt"
	"unsafe"
)

// View returns the T that lies off bytes into mem. T has no pointers: other processes write it, and
// the garbage collector does not look there. It panics if T does not fit or is not aligned there.
func View[T any](mem []byte, off int) *T {
	size, align := unsafe.Sizeof(*new(T)), unsafe.Alignof(*new(T))
	if off < 0 || off > len(mem) || uintptr(len(mem)-off) < size || size == 0 {
		panic(fmt.Sprintf("shmem: %d bytes at byte %d of %d", size, off, len(mem)))
	}
	p := unsafe.Pointer(&mem[off])
	if uintptr(p)%align != 0 {
		panic(fmt.Sprintf("shmem: byte %d is not aligned to %d", off, align))
	}
	return (*T)(p)
}

// SizeOf returns how many bytes a T takes in memory.
func SizeOf[T any]() int { return int(unsafe.Sizeof(*new(T))) }

// line is a cache line.
type line [8]uint64

// Heap returns n bytes, all zero, that begin at a cache line, of Go's heap: a stand-in for mapped
// memory within one process.
func Heap(n int) []byte {
	const size = int(unsafe.Sizeof(line{}))
	lines := make([]line, n/size+2)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&lines[0])), len(lines)*size)
	skip := -int(uintptr(unsafe.Pointer(&lines[0]))) & (size - 1)
	return b[skip : skip+n : skip+n]
}
