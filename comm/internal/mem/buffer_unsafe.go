// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mem describes the memory of messages: where it is, what its elements are and how they are
// laid out. Its Buffer is that of package comm. Only this package knows of counts and strides.
package mem

import (
	"fmt"
	"unsafe"

	"weft/internal/stream"
)

// Buffer describes blocks of blocklen elements, stride elements apart. It is a value, cheap to
// copy, and keeps the memory alive. The zero Buffer is empty.
//
// A Buffer has four words because the compiler keeps a struct of four words in registers. It keeps
// a struct of five words in memory: it writes them singly and copies them in pairs. Store
// forwarding fails for such a read, and the processor waits for as long as the rest of a send
// takes.
type Buffer struct {
	ptr      unsafe.Pointer
	typ      *Element // nil: the empty buffer
	blocklen int      // elements
	pieces   pieces
}

// pieces says how a buffer is cut. Its upper 32 bits are the number of blocks after the first; its
// lower 32 bits are the stride, in elements from one block's start to the next. The pieces of a
// contiguous buffer are zero.
type pieces uint64

const maxPieces = 1<<32 - 1 // the largest number of blocks, and the largest stride

func (p pieces) more() int   { return int(p >> 32) }
func (p pieces) stride() int { return int(p & maxPieces) }

// Of describes the elements of a slice.
func Of[T any](s []T) Buffer {
	return At(unsafe.Pointer(unsafe.SliceData(s)), ElementOf[T](), len(s))
}

// At describes n elements at an address. The compiler must inline Of, here and in package comm.
// Their cost is just at the inlining limit, so At must not cost more.
func At(p unsafe.Pointer, t *Element, n int) Buffer { return Buffer{ptr: p, typ: t, blocklen: n} }

// Vector describes count blocks of blocklen elements of s, whose starts are stride elements apart.
func Vector[T any](s []T, count, blocklen, stride int) Buffer {
	t := ElementOf[T]()
	switch {
	case t.Err != nil:
	case count < 0 || blocklen < 0:
		t = badBuffer("vector of %d blocks of %d elements", count, blocklen)
	case count == 0 || blocklen == 0:
		return Buffer{typ: t}
	case count > 1 && stride < blocklen:
		t = badBuffer("vector with stride %d overlaps its blocks of %d elements", stride, blocklen)
	case count > 1 && stride > blocklen && uint64(max(count, stride)) > maxPieces:
		t = badBuffer("vector of %d blocks with stride %d; both are at most 2^32-1", count, stride)
	case blocklen > len(s), count > 1 && (len(s)-blocklen)/(count-1) < stride:
		t = badBuffer("vector of %d blocks of %d elements with stride %d in a slice of %d elements", count, blocklen, stride, len(s))
	}
	if t.Err != nil {
		return Buffer{typ: t}
	}
	if count == 1 || stride == blocklen {
		return At(unsafe.Pointer(unsafe.SliceData(s)), t, count*blocklen)
	}
	return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(s)), typ: t, blocklen: blocklen, pieces: pieces(count-1)<<32 | pieces(stride)}
}

func badBuffer(format string, args ...any) *Element {
	return &Element{Err: fmt.Errorf("%w: %s", ErrBuffer, fmt.Sprintf(format, args...))}
}

// Raw describes plain memory as elements of a kind that has a size.
func Raw(p []byte, k Kind) Buffer {
	if k == None || k >= Opaque {
		return Buffer{typ: badBuffer("memory as elements of kind %v", k)}
	}
	t := kindTypes[k]
	ptr := unsafe.Pointer(unsafe.SliceData(p))
	align := min(t.Size, 8)
	if len(p)%t.Size != 0 || uintptr(ptr)%uintptr(align) != 0 {
		return Buffer{typ: badBuffer("%d bytes at an address with remainder %d as elements of kind %v", len(p), uintptr(ptr)%8, k)}
	}
	return At(ptr, t, len(p)/t.Size)
}

// Err returns why the buffer cannot be used, or nil.
func (b Buffer) Err() error {
	if b.typ == nil {
		return nil
	}
	return b.typ.Err
}

// Len returns the number of elements.
func (b Buffer) Len() int { return (b.pieces.more() + 1) * b.blocklen }

// Bytes returns the size of the payload.
func (b Buffer) Bytes() int { return b.Len() * b.ElemSize() }

// Kind returns the kind of the elements.
func (b Buffer) Kind() Kind {
	if b.typ == nil {
		return None
	}
	return b.typ.Kind
}

// Element returns the type of the elements; nil for the empty buffer.
func (b *Buffer) Element() *Element { return b.typ }

// Payload returns the type of the elements, and how many there are. (Len would copy the Buffer.)
func (b *Buffer) Payload() (t *Element, n int) { return b.typ, (b.pieces.more() + 1) * b.blocklen }

// Plain reports whether the buffer is not empty and can be used.
func (b *Buffer) Plain() bool { return b.typ != nil && b.typ.Err == nil }

// Strided reports whether the payload is in several pieces.
func (b *Buffer) Strided() bool { return b.pieces != 0 }

// Forget drops the reference to the memory.
func (b *Buffer) Forget() { b.ptr = nil }

// ElemSize returns the size of an element in bytes.
func (b Buffer) ElemSize() int {
	if b.typ == nil {
		return 0
	}
	return b.typ.Size
}

// Contiguous returns the payload's memory itself if it is one piece.
func (b Buffer) Contiguous() ([]byte, bool) {
	if b.Strided() {
		return nil, false
	}
	return b.block(0), true
}

// block returns the memory of block i.
func (b Buffer) block(i int) []byte {
	n := b.blocklen * b.ElemSize()
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(b.ptr, i*b.pieces.stride()*b.typ.Size)), n)
}

// Slice returns the buffer of elements lo up to hi of a contiguous buffer. It panics on a strided
// buffer and on bounds outside it, as slicing does.
func (b Buffer) Slice(lo, hi int) Buffer {
	if b.Strided() || lo < 0 || hi < lo || hi > b.Len() {
		panic(fmt.Sprintf("comm: Slice(%d, %d) of a buffer of %d elements in %d blocks", lo, hi, b.Len(), b.pieces.more()+1))
	}
	if lo == hi {
		return Buffer{typ: b.typ}
	}
	return At(unsafe.Add(b.ptr, lo*b.typ.Size), b.typ, hi-lo)
}

// CopyToBytes copies payload, from its byte off on, to dst, and returns the number of bytes copied.
func (b Buffer) CopyToBytes(dst []byte, off int) int { return b.walk(dst, off, false) }

// CopyFromBytes copies src into the payload, from its byte off on, and returns the number of bytes
// copied.
func (b Buffer) CopyFromBytes(src []byte, off int) int { return b.walk(src, off, true) }

// Pack is CopyToBytes of the whole payload to memory with room for it. It copies a single word,
// which is frequent, without a call.
func (b *Buffer) Pack(dst []byte) {
	if len(dst) == 8 && b.pieces == 0 {
		*(*[8]byte)(dst) = *(*[8]byte)(b.block(0))
	} else {
		b.CopyToBytes(dst, 0)
	}
}

// First returns the first n elements of a contiguous buffer that may be of size zero.
func (b Buffer) First(n int) Buffer {
	b.blocklen = n
	return b
}

func (b *Buffer) walk(p []byte, off int, in bool) int {
	total := b.Bytes()
	if off < 0 || off >= total || len(p) == 0 {
		return 0
	}
	if b.pieces == 0 {
		if in {
			return copy(b.block(0)[off:], p)
		}
		return copy(p, b.block(0)[off:])
	}
	bl := b.blocklen * b.typ.Size
	if bl == 8 && off == 0 && len(p) >= total {
		b.words(p, in)
		return total
	}
	n := 0
	i, skip := off/bl, off%bl
	for ; i <= b.pieces.more() && n < len(p); i++ {
		blk := b.block(i)[skip:]
		skip = 0
		if in {
			n += copy(blk, p[n:])
		} else {
			n += copy(p[n:], blk)
		}
	}
	return n
}

// words is walk for blocks of eight bytes (a column of float64), where a call of copy per block
// would be most of the time.
func (b Buffer) words(p []byte, in bool) {
	step := b.pieces.stride() * b.typ.Size
	m := b.ptr
	q := unsafe.Pointer(unsafe.SliceData(p))
	for i := range b.pieces.more() + 1 {
		if i > 0 {
			m, q = unsafe.Add(m, step), unsafe.Add(q, 8)
		}
		if in {
			*(*[8]byte)(m) = *(*[8]byte)(q)
		} else {
			*(*[8]byte)(q) = *(*[8]byte)(m)
		}
	}
}

// Copy copies as much as fits, and returns how many bytes. Layouts are walked block by block of the
// side with more blocks, so that no intermediate memory is needed.
func Copy(dst, src Buffer) int {
	if s, ok := src.Contiguous(); ok {
		return dst.CopyFromBytes(s, 0)
	}
	if d, ok := dst.Contiguous(); ok {
		return src.CopyToBytes(d, 0)
	}
	total := min(dst.Bytes(), src.Bytes())
	n := 0
	for i := 0; i <= src.pieces.more() && n < total; i++ {
		blk := src.block(i)
		n += dst.CopyFromBytes(blk[:min(len(blk), total-n)], n)
	}
	return n
}

// Take copies data of an element type into the buffer and returns true in the common case: the
// buffer is contiguous, of that type and not too small; and no larger, if exact. Otherwise it does
// nothing and returns false.
func (b *Buffer) Take(k Kind, size int, exact bool, data []byte) bool {
	t := b.typ
	if t == nil || b.pieces != 0 || t.Kind != k || t.Size != size || len(data) == 0 {
		return false
	}
	n := b.blocklen * t.Size
	if len(data) > n || (len(data) < n && exact) {
		return false
	}
	if len(data) == 8 {
		*(*[8]byte)(b.ptr) = [8]byte(data)
	} else {
		copy(unsafe.Slice((*byte)(b.ptr), n), data)
	}
	return true
}

// Memory returns the memory of a contiguous buffer whose payload has n bytes.
func (b *Buffer) Memory(n uint64) []byte { return unsafe.Slice((*byte)(b.ptr), n) }

// SameMemory reports whether two buffers begin at the same address.
func SameMemory(a, b Buffer) bool { return a.ptr == b.ptr }

// Over describes p as contiguous elements of b's type.
func (b Buffer) Over(p []byte) Buffer {
	n := 0
	if b.ElemSize() > 0 {
		n = len(p) / b.typ.Size
	}
	return At(unsafe.Pointer(unsafe.SliceData(p)), b.typ, n)
}

// Elements returns the memory of a contiguous buffer as a slice of T. The caller has checked that T
// is the buffer's element type.
func Elements[T any](b Buffer) []T { return unsafe.Slice((*T)(b.ptr), b.blocklen) }

// StreamToBytes is CopyToBytes, from the beginning of the payload, to memory that is not read soon
// on this machine, such as that of a file. If it pays, the copy bypasses the cache, so that other
// data stays there.
func (b Buffer) StreamToBytes(dst []byte) int {
	size := b.blocklen * b.ElemSize()
	total := b.Bytes()
	if total >= stream.Least && total <= len(dst) && stream.Rows(dst, b.ptr, b.pieces.more()+1, size, b.pieces.stride()*b.typ.Size) {
		return total
	}
	return b.CopyToBytes(dst, 0)
}

// Fit returns why data of src may not be received as dst; nil if it may.
func Fit(dst, src *Buffer) error {
	if Fits(dst.Kind(), src.Kind(), dst.ElemSize(), src.ElemSize()) {
		return nil
	}
	return Mismatch(dst.Kind(), src.Kind(), dst.ElemSize(), src.ElemSize())
}

// Sized describes plain memory as opaque elements of a given size. For tests.
func Sized(p []byte, size int) Buffer {
	return Buffer{typ: &Element{Kind: Opaque, Size: size, Name: "opaque"}}.Over(p)
}
