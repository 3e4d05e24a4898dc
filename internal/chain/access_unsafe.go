// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"unsafe"
)

// An Access says how a task uses an object, a range of memory, or a reduction. Package deps has the
// constructors for users. An Access is a small value; a node keeps what it needs of it, and keeps
// the object alive while its task may use it.
type Access struct {
	ptr object // for ModeReduce, the *Reduced
	how

	// Size in bytes: 48 bits, of which the highest is isSlice.
	sizeHi uint16
	sizeLo uint32
}

// object is the address of an object. It keeps the object alive.
type object *byte

func addr(o object) uintptr { return uintptr(unsafe.Pointer(o)) }

// how is the mode and strength of an access. It is a separate struct because the compiler keeps
// structs of more than four fields in memory, which slows registration measurably.
type how struct {
	mode Mode
	weak bool
}

// Object returns an access to the object at p. It panics if p is nil or points to a zero-size
// object.
func Object[T any](p *T, m Mode) Access {
	if p == nil || unsafe.Sizeof(*p) == 0 {
		panic(badObject[T]{p})
	}
	return Access{ptr: object(unsafe.Pointer(p)), how: how{mode: m}, sizeHi: uint16(unsafe.Sizeof(*p) >> 32), sizeLo: uint32(unsafe.Sizeof(*p))}
}

// Weak returns the weak form of the access.
func (a Access) Weak() Access {
	a.weak = true
	return a
}

// Mode returns the mode of the access.
func (a Access) Mode() Mode { return a.mode &^ heldMode }

// IsWeak reports whether the access is weak.
func (a Access) IsWeak() bool { return a.weak }

// String returns the access as it is written in a program, with the address.
func (a Access) String() string {
	s := written(a.Mode(), a.object(), a.weak)
	if a.isRange() {
		s = fmt.Sprintf("Slice(%p, %d bytes).%s", a.ptr, a.size(), a.how)
	}
	return s
}

func written(m Mode, o object, weak bool) string {
	s := fmt.Sprintf("%v(%p)", m, o)
	if weak {
		s += ".Weak()"
	}
	return s
}

// badObject is the panic value of a constructor whose pointer names no object. Its text is
// formatted only when it is printed, so that the constructors, which run for every access of every
// task, are small enough to be inlined.
type badObject[T any] struct{ p *T }

func (e badObject[T]) Error() string {
	if e.p == nil {
		return fmt.Sprintf("deps: access through a nil %T; name an object that exists", e.p)
	}
	return fmt.Sprintf("deps: access to a zero-size object (%T): distinct zero-size objects can share one address in Go; use a field or variable of at least one byte", e.p)
}

// heldMode is the bit of Access.mode that Held sets.
const heldMode Mode = 1 << 7

// Held returns the access for a task below a holder of the object that the engine cannot see in the
// parent's accesses: Commutative then means InOut. It is for runtimes that order some tasks
// themselves, for example by a Cycle.
func (a Access) Held() Access {
	a.mode |= heldMode
	return a
}

// Meets reports whether the two accesses are to the same object, or are to memory that overlaps and
// at least one of them is a range. An empty range meets nothing.
func (a Access) Meets(b Access) bool {
	if !a.isRange() && !b.isRange() {
		return a.object() == b.object()
	}
	alo, ahi := a.extent()
	blo, bhi := b.extent()
	return max(alo, blo) < min(ahi, bhi)
}

// Strong returns the strong form of the access.
func (a Access) Strong() Access {
	a.weak = false
	return a
}

// Memory returns the addresses [lo, hi) that the access covers, and whether it was made by [Slice].
// Other objects know an object by lo alone. An empty slice and the zero Access cover nothing.
// Memory is for tools that audit accesses; the addresses do not keep the memory alive.
func (a Access) Memory() (lo, hi uintptr, slice bool) {
	if a.ptr != nil && a.size() > 0 {
		lo, hi = a.extent()
	}
	return lo, hi, a.isRange()
}

// object returns the address by which a's object is known.
func (a Access) object() object {
	if a.mode == ModeReduce {
		return a.Reduced().key
	}
	return a.ptr
}

// Reduced returns the reduction of a Reduce access; nil for any other access.
func (a Access) Reduced() *Reduced {
	if a.mode != ModeReduce {
		return nil
	}
	return (*Reduced)(unsafe.Pointer(a.ptr))
}

// Access returns the Reduce access of r.
func (r *Reduced) Access() Access {
	if r.key == nil {
		panic("deps: the zero Reduction reduces nothing; use NewReduction or NewSliceReduction")
	}
	a := r.InOut()
	a.ptr, a.mode = object(unsafe.Pointer(r)), ModeReduce
	return a
}

// A Range is a range of memory.
type Range struct {
	ptr  object
	size uintptr
}

// Slice returns the memory of s[0:len(s)]. It panics if the elements have size zero.
func Slice[S ~[]E, E any](s S) Range {
	var e E
	if unsafe.Sizeof(e) == 0 {
		badElement(fmt.Sprintf("%T", s))
	}
	return Range{object(unsafe.Pointer(unsafe.SliceData(s))), uintptr(len(s)) * unsafe.Sizeof(e)}
}

func badElement(typ string) {
	panic("deps: access to a slice of zero-size elements (" + typ + "): it has no memory that a task could use")
}

// isSlice is the bit of Access.sizeHi that distinguishes a range from an object. Sizes have fewer
// than 47 bits.
const isSlice = 1 << 15

// Access returns an access to the range.
func (r Range) Access(m Mode) Access {
	return Access{ptr: r.ptr, how: how{mode: m}, sizeHi: uint16(r.size>>32) | isSlice, sizeLo: uint32(r.size)}
}

// isRange reports whether the access was made by [Slice].
func (a Access) isRange() bool { return a.sizeHi&isSlice != 0 }

// size returns the number of bytes that the access covers.
func (a Access) size() uintptr { return uintptr(a.sizeHi&^isSlice)<<32 | uintptr(a.sizeLo) }

// String returns the access without its object, as it is written after Slice(x).
func (h how) String() string {
	if h.weak {
		return h.mode.String() + "().Weak()"
	}
	return h.mode.String() + "()"
}

// extent returns the addresses [lo, hi) that the access covers.
func (a Access) extent() (lo, hi uintptr) {
	lo = addr(a.object())
	return lo, lo + a.size()
}

// part returns the bytes of a in [lo, hi).
func (a Access) part(lo, hi uintptr) Range {
	return Range{object(unsafe.Add(unsafe.Pointer(a.ptr), lo-addr(a.ptr))), hi - lo}
}
