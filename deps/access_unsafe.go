// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"fmt"
	"unsafe"
)

// An Access says how a task uses an object: make it with [In], [Out],
// [InOut] or [Concurrent]. It is a small value; the task keeps what it needs of
// it. While the task may still use the object, the access keeps the object
// alive.
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

// In declares that the task reads the object at p. Readers run together.
//
// The object is named by its address: two pointers name the same object when
// they are equal, whatever their types are; a struct and its first field are
// one object, an array and its first element too. All constructors panic if p is nil
// or points to a zero-size object, since Go lets different zero-size objects
// share one address.
func In[T any](p *T) Access { return object(p, ModeIn) }

// Out declares that the task overwrites the object at p. There is no renaming:
// Out orders exactly as [InOut] does; the name is documentation.
func Out[T any](p *T) Access { return object(p, ModeOut) }

// InOut declares that the task reads and writes the object at p: it runs after
// all earlier accesses to the object and before all later ones.
func InOut[T any](p *T) Access { return object(p, ModeInOut) }

// Concurrent declares that the task updates the object at p and does its own
// synchronisation with the other tasks of its group: consecutive Concurrent
// accesses run together, and the group as a whole is a writer to what comes
// before and after.
func Concurrent[T any](p *T) Access { return object(p, ModeConcurrent) }

// Weak returns the weak form of the access: the task itself does not touch
// the object, but its descendants may. A weak access does not delay the task; it
// links the children's accesses into the chain of the object, where each waits for
// what it needs.
func (a Access) Weak() Access {
	a.weak = true
	return a
}

// Mode returns the mode of the access.
func (a Access) Mode() Mode { return a.mode }

// IsWeak reports whether the access is weak.
func (a Access) IsWeak() bool { return a.weak }

// String returns the access as it is written in a program, with the address.
func (a Access) String() string {
	s := written(a.mode, a.object(), a.weak)
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

func object[T any](p *T, m Mode) Access {
	if p == nil || unsafe.Sizeof(*p) == 0 {
		badObject(p == nil, fmt.Sprintf("%T", p))
	}
	return Access{ptr: unsafe.Pointer(p), how: how{mode: m}, sizeHi: uint16(unsafe.Sizeof(*p) >> 32), sizeLo: uint32(unsafe.Sizeof(*p))}
}

func badObject(isNil bool, typ string) {
	if isNil {
		panic("deps: access through a nil " + typ + "; name an object that exists")
	}
	panic("deps: access to a zero-size object (" + typ + "): distinct zero-size objects can share one address in Go; use a field or variable of at least one byte")
}
