// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"fmt"
	"unsafe"

	"weft/comm/internal/mem"
)

// Buffer describes memory: where it is, what its elements are and how they are laid out: count
// blocks of blocklen elements, stride elements apart. It is a value, cheap to copy, and keeps the
// memory alive. The zero Buffer is empty. The memory stays the caller's; an operation that was
// given a Buffer reads or writes it until the operation is complete.
type Buffer struct{ b mem.Buffer }

// Of describes the elements of a slice. The element type must hold no pointers; an operation on a
// buffer whose type does returns ErrType.
func Of[T any](s []T) Buffer {
	return Buffer{mem.At(unsafe.Pointer(unsafe.SliceData(s)), mem.ElementOf[T](), len(s))}
}

// Vector describes count blocks of blocklen elements of s, whose starts are stride elements apart;
// such as a column of a matrix: Vector(m[col:], rows, 1, width). An operation on a vector that does
// not lie in s, or whose blocks overlap, returns ErrBuffer; so does one of more than 2^32-1 blocks,
// or with a greater stride, unless the blocks touch.
func Vector[T any](s []T, count, blocklen, stride int) Buffer {
	return Buffer{mem.Vector(s, count, blocklen, stride)}
}

// Raw describes plain memory as elements of a kind, for layers that keep memory as bytes. The
// length must be a multiple of the kind's size, and the memory aligned to it; otherwise operations
// return ErrBuffer. Kinds without a size of their own (Opaque) are refused likewise.
func Raw(p []byte, k Kind) Buffer { return Buffer{mem.Raw(p, mem.Kind(k))} }

// Err returns why the buffer cannot be used (ErrType, ErrBuffer), or nil.
func (b Buffer) Err() error { return b.b.Err() }

// Len returns the number of elements.
func (b Buffer) Len() int { return b.b.Len() }

// Bytes returns the size of the payload.
func (b Buffer) Bytes() int { return b.b.Bytes() }

// Kind returns the kind of the elements.
func (b Buffer) Kind() Kind { return Kind(b.b.Kind()) }

// ElemSize returns the size of an element in bytes.
func (b Buffer) ElemSize() int { return b.b.ElemSize() }

// Contiguous returns the payload's memory itself if it is one piece.
func (b Buffer) Contiguous() ([]byte, bool) { return b.b.Contiguous() }

// Slice returns the buffer of elements lo up to hi of a contiguous buffer. It panics on a strided
// buffer and on bounds outside it, as slicing does.
func (b Buffer) Slice(lo, hi int) Buffer { return Buffer{b.b.Slice(lo, hi)} }

// CopyToBytes copies payload, from its byte off on, to dst, and returns the number of bytes copied.
func (b Buffer) CopyToBytes(dst []byte, off int) int { return b.b.CopyToBytes(dst, off) }

// CopyFromBytes copies src into the payload, from its byte off on, and returns the number of bytes
// copied.
func (b Buffer) CopyFromBytes(src []byte, off int) int { return b.b.CopyFromBytes(src, off) }

// StreamToBytes is CopyToBytes, from the beginning of the payload, to memory that will not be
// read soon on this machine, such as that of a file: where it pays, the copy bypasses the cache.
func (b Buffer) StreamToBytes(dst []byte) int { return b.b.StreamToBytes(dst) }

// Copy copies src to dst, any layout to any layout, in one pass, and returns the number of bytes
// copied. It returns ErrType if the element kinds differ, and ErrTruncated, with dst filled, if src
// is larger.
func Copy(dst, src Buffer) (int, error) {
	if err := cmp.Or(dst.Err(), src.Err(), mem.Fit(&dst.b, &src.b)); err != nil {
		return 0, err
	}
	n := mem.Copy(dst.b, src.b)
	if n < src.Bytes() {
		return n, fmt.Errorf("%w: %d bytes into %d", ErrTruncated, src.Bytes(), dst.Bytes())
	}
	return n, nil
}

// Kind is the kind of a buffer's elements. Named types have the kind of what they are made of; int
// and uint have the kind of their size.
type Kind uint8

// The kinds.
const (
	None       = Kind(mem.None) // the empty buffer; fits everything
	Byte       = Kind(mem.Byte) // uint8; fits every kind, as plain memory
	Bool       = Kind(mem.Bool)
	Int8       = Kind(mem.Int8)
	Int16      = Kind(mem.Int16)
	Int32      = Kind(mem.Int32)
	Int64      = Kind(mem.Int64)
	Uint16     = Kind(mem.Uint16)
	Uint32     = Kind(mem.Uint32)
	Uint64     = Kind(mem.Uint64)
	Float32    = Kind(mem.Float32)
	Float64    = Kind(mem.Float64)
	Complex64  = Kind(mem.Complex64)
	Complex128 = Kind(mem.Complex128)
	// any other type without pointers: structs, arrays; compared by size
	Opaque = Kind(mem.Opaque)
)

// String returns the kind's name.
func (k Kind) String() string { return mem.Kind(k).String() }
