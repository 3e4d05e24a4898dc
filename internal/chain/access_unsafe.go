// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"unsafe"
)

// An Access says how a task uses an object, a range of memory, or a reduction: package deps has what users see of it. It is a
// small value; a node keeps what it needs of it, and the object alive while its task may use it.
type Access struct {
	ptr unsafe.Pointer // the object; of ModeReduce the *Reduced
	how

	// The bytes that it covers, 48 bits in all, the highest of which is isSlice.
	sizeHi uint16
	sizeLo uint32
}

// how is the kind of an access. It is a struct of its own because the compiler keeps structs of more than four
// fields in memory, which is felt where tasks are registered.
type how struct {
	mode Mode
	weak bool
}

// Object returns an access to the object at p. It panics if p is nil or points to a zero-size object.
func Object[T any](p *T, m Mode) Access {
	if p == nil || unsafe.Sizeof(*p) == 0 {
		panic(nameless[T]{p})
	}
	return Access{ptr: unsafe.Pointer(p), how: how{mode: m}, sizeHi: uint16(unsafe.Sizeof(*p) >> 32), sizeLo: uint32(unsafe.Sizeof(*p))}
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

func written(m Mode, object unsafe.Pointer, weak bool) string {
	s := fmt.Sprintf("%v(%p)", m, object)
	if weak {
		s += ".Weak()"
	}
	return s
}

// nameless is what a constructor panics with if p names no object. Its text is made when somebody asks for it, so that the
// constructors, which are called for every access of every task, are small enough to be inlined.
type nameless[T any] struct{ p *T }

func (e nameless[T]) Error() string {
	if e.p == nil {
		return fmt.Sprintf("deps: access through a nil %T; name an object that exists", e.p)
	}
	return fmt.Sprintf("deps: access to a zero-size object (%T): distinct zero-size objects can share one address in Go; use a field or variable of at least one byte", e.p)
}
