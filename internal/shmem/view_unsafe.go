// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"fmt"
	"unsafe"
)

// View returns a pointer to the T at byte off of mem. T must have no pointers: other processes
// write the memory, and the garbage collector does not scan it. View panics if T does not fit there
// or is not aligned.
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

// SizeOf returns the size of a T in bytes.
func SizeOf[T any]() int { return int(unsafe.Sizeof(*new(T))) }

// line is a cache line.
type line [8]uint64

// Heap returns n zero bytes of Go's heap that begin at a cache line. They replace mapped memory in
// tests within one process.
func Heap(n int) []byte {
	const size = int(unsafe.Sizeof(line{}))
	lines := make([]line, n/size+2)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&lines[0])), len(lines)*size)
	skip := -int(uintptr(unsafe.Pointer(&lines[0]))) & (size - 1)
	return b[skip : skip+n : skip+n]
}
