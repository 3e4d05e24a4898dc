// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"unsafe"
)

// A Range is a range of memory.
type Range struct {
	ptr  unsafe.Pointer
	size uintptr
}

// Slice returns the memory of s[0:len(s)]. It panics if the elements have size zero.
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

// isSlice is the bit of Access.sizeHi that tells a range from an object. Sizes have less than 47 bits.
const isSlice = 1 << 15

// Access returns an access to the range.
func (r Range) Access(m Mode) Access {
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
