// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"fmt"
	"unsafe"
)

// An Access says how a task uses an object, or a range of memory: make it with [In], [Out],
// [InOut], [Concurrent] or [Commutative], by [Slice], or by a reduction. It is a small value; the task keeps what it needs of
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

// Commutative declares that the task reads and writes the object at p, and that
// the order in which it and the other tasks of its group do so does not matter, as long as they do it
// one at a time: consecutive Commutative accesses form a group, which as a whole is a writer to what
// comes before and after, and of which one task at a time has the object.
//
// A task takes all its Commutative objects together, when nothing else holds it back, and keeps each
// until it is over or gives the object up by Release, and its children that use the object are over too.
// The exclusion is by object, whatever the domain: two tasks that name the same object Commutative never run at
// the same time, in one process. Ranges exclude each other byte by byte ([Range.Commutative]). No task is overtaken for ever.
//
// To the children of a task that has the object Commutative they are InOut accesses, in their
// order: the parent has the object for them. Other objects are other locks: a task that waits for
// children or events keeps its objects, so what it waits for must not need them.
func Commutative[T any](p *T) Access { return object(p, ModeCommutative) }

// Weak returns the weak form of the access: the task itself does not touch
// the object, but its descendants may. A weak access does not delay the task; it
// links the children's accesses into the chain of the object, where each waits for
// what it needs. A weak Commutative access takes no exclusion; the children's do, each for itself.
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

func object[T any](p *T, m Mode) Access {
	if p == nil || unsafe.Sizeof(*p) == 0 {
		panic(nameless[T]{p})
	}
	return Access{ptr: unsafe.Pointer(p), how: how{mode: m}, sizeHi: uint16(unsafe.Sizeof(*p) >> 32), sizeLo: uint32(unsafe.Sizeof(*p))}
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
