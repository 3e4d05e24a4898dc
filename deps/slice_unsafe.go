// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"fmt"
	"unsafe"
)

// A Range is a range of memory, made by [Slice]. Its methods make accesses to it.
type Range struct {
	ptr  unsafe.Pointer
	size uintptr
}

// Slice names the memory of s[0:len(s)], for an access to a part of an array:
//
//	t.Spawn(fill, deps.Slice(a[lo:hi]).Out())
//	t.Spawn(smooth, deps.Slice(a[lo-1:hi+1]).In(), deps.Slice(b[lo:hi]).Out())
//
// Accesses to ranges are ordered byte by byte: two conflict where they overlap, however they overlap,
// and a range conflicts with an object ([In], [Out], …) where they overlap, the object being the bytes of
// the variable. An empty slice is legal and conflicts with nothing. Slice panics if the
// elements have size zero, since they have no memory.
//
// Ranges cost more than objects. Where all tasks name the same blocks, name each block by
// a pointer instead.
func Slice[S ~[]E, E any](s S) Range {
	var e E
	if unsafe.Sizeof(e) == 0 {
		badElement(fmt.Sprintf("%T", s))
	}
	return Range{unsafe.Pointer(unsafe.SliceData(s)), uintptr(len(s)) * unsafe.Sizeof(e)}
}

func badElement(typ string) {
	panic("deps: access to a slice of zero-size elements (" + typ + "): it has no memory that a task could use")
}

// In declares that the task reads the range.
func (r Range) In() Access { return r.access(ModeIn) }

// Out declares that the task overwrites the range. It orders as InOut does.
func (r Range) Out() Access { return r.access(ModeOut) }

// InOut declares that the task reads and writes the range.
func (r Range) InOut() Access { return r.access(ModeInOut) }

// Concurrent declares that the task updates the range together with the neighbours of the same
// mode, as [Concurrent] does for an object.
func (r Range) Concurrent() Access { return r.access(ModeConcurrent) }

// Commutative declares that the task reads and writes the range in any order with the neighbours of the same
// mode, as [Commutative] does for an object. Two tasks exclude each other if their ranges overlap, by however few bytes; others
// run together. A task takes all its ranges and objects in one step.
func (r Range) Commutative() Access { return r.access(ModeCommutative) }

// isSlice is the bit of Access.sizeHi that tells a range from an object. Sizes have less than 47 bits.
const isSlice = 1 << 15

func (r Range) access(m Mode) Access {
	return Access{ptr: r.ptr, how: how{mode: m}, sizeHi: uint16(r.size>>32) | isSlice, sizeLo: uint32(r.size)}
}

// isRange reports whether the access was made by [Slice].
func (a Access) isRange() bool { return a.sizeHi&isSlice != 0 }

// size returns the number of bytes that the access covers.
func (a Access) size() uintptr { return uintptr(a.sizeHi&^isSlice)<<32 | uintptr(a.sizeLo) }

// String returns the end of the access as it is written in a program.
func (h how) String() string {
	if h.weak {
		return h.mode.String() + "().Weak()"
	}
	return h.mode.String() + "()"
}

// extent returns the addresses that the access covers.
func (a Access) extent() (lo, hi uintptr) {
	lo = uintptr(a.object())
	return lo, lo + a.size()
}
