// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// Errors of package comm, which documents them.
var (
	ErrType   = errors.New("wrong element type")
	ErrBuffer = errors.New("bad buffer")
)

// Kind is the kind of a buffer's elements; it is comm.Kind.
type Kind uint8

// The kinds.
const (
	None Kind = iota
	Byte
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	Complex64
	Complex128
	Opaque
	NumKinds
)

var kindNames = [NumKinds]string{"none", "byte", "bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
	"float32", "float64", "complex64", "complex128", "opaque"}

// kindSizes has the size in bytes of the kinds that have one.
var kindSizes = [NumKinds]int{Byte: 1, Bool: 1, Int8: 1, Int16: 2, Int32: 4, Int64: 8, Uint16: 2, Uint32: 4, Uint64: 8,
	Float32: 4, Float64: 8, Complex64: 8, Complex128: 16}

// String returns the kind's name.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Element describes the elements of a buffer. It is constant after construction. There is one for
// each Go type, and one for each faulty buffer, with its error.
type Element struct {
	Kind Kind
	Size int
	Name string
	Err  error // why the type or the buffer cannot be used; or nil
}

var (
	kindTypes  [NumKinds]*Element // by kind; nil for None and Opaque
	otherTypes sync.Map           // reflect.Type → *Element
)

func init() {
	for k := Byte; k < Opaque; k++ {
		kindTypes[k] = &Element{Kind: k, Size: kindSizes[k], Name: k.String()}
	}
}

// ElementOf returns the element type of T. The types that programs use most need no lookup.
func ElementOf[T any]() *Element {
	switch any((*T)(nil)).(type) {
	case *float64:
		return kindTypes[Float64]
	case *byte:
		return kindTypes[Byte]
	case *int:
		return kindTypes[intKind]
	case *float32:
		return kindTypes[Float32]
	case *int64:
		return kindTypes[Int64]
	case *int32:
		return kindTypes[Int32]
	case *uint64:
		return kindTypes[Uint64]
	case *uint32:
		return kindTypes[Uint32]
	}
	return typeByReflection(reflect.TypeFor[T]())
}

const intKind = Int32 + Kind(^uint(0)>>63) // Int64 on 64-bit machines
const uintKind = Uint32 + Kind(^uint(0)>>63)

func typeByReflection(t reflect.Type) *Element {
	if e, ok := otherTypes.Load(t); ok {
		return e.(*Element)
	}
	var e *Element
	if k := kindOf(t); k != Opaque {
		e = kindTypes[k]
	} else {
		e = &Element{Kind: Opaque, Size: int(t.Size()), Name: t.String()}
		if path := pointerIn(t, t.String()); path != "" {
			e.Err = fmt.Errorf("%w: %s holds a pointer (%s); only types without pointers can be moved", ErrType, t, path)
		}
	}
	actual, _ := otherTypes.LoadOrStore(t, e)
	return actual.(*Element)
}

func kindOf(t reflect.Type) Kind {
	switch t.Kind() {
	case reflect.Bool:
		return Bool
	case reflect.Int:
		return intKind
	case reflect.Int8:
		return Int8
	case reflect.Int16:
		return Int16
	case reflect.Int32:
		return Int32
	case reflect.Int64:
		return Int64
	case reflect.Uint, reflect.Uintptr:
		return uintKind
	case reflect.Uint8:
		return Byte
	case reflect.Uint16:
		return Uint16
	case reflect.Uint32:
		return Uint32
	case reflect.Uint64:
		return Uint64
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	case reflect.Complex64:
		return Complex64
	case reflect.Complex128:
		return Complex128
	}
	return Opaque
}

// pointerIn returns where in a type a pointer is, or "".
func pointerIn(t reflect.Type, path string) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return pointerIn(t.Elem(), path+"[]")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if p := pointerIn(f.Type, path+"."+f.Name); p != "" {
				return p
			}
		}
		return ""
	}
	if kindOf(t) != Opaque {
		return ""
	}
	return path + " is a " + t.Kind().String()
}

// Fits reports whether data of one element type may be received as another.
func Fits(a, b Kind, aSize, bSize int) bool {
	if a == b {
		return aSize == bSize
	}
	return a == Byte || b == Byte || a == None || b == None
}

// Mismatch is the error of data that is of another element type than expected.
func Mismatch(want, have Kind, wantSize, haveSize int) error {
	return fmt.Errorf("%w: message of %v (%d bytes) where %v (%d bytes) is expected", ErrType, have, haveSize, want, wantSize)
}
