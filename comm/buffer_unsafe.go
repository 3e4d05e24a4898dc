// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"unsafe"

	"weft/internal/stream"
)

// Buffer describes memory: where it is, what its elements are and how they are laid out: count blocks
// of blocklen elements, stride elements apart. It is a value, cheap to copy, and keeps the memory
// alive. The zero Buffer is empty. The memory stays the caller's; an operation that was given a
// Buffer reads or writes it until the operation is complete.
type Buffer struct {
	ptr      unsafe.Pointer
	typ      *elemType // nil: the empty buffer
	count    int       // blocks; a contiguous buffer is one block
	blocklen int       // elements
	stride   int       // elements from one block's start to the next
}

// Of describes the elements of a slice. The element type must hold no pointers; an operation on a
// buffer whose type does returns ErrType.
func Of[T any](s []T) Buffer {
	return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(s)), typ: typeFor[T](), count: 1, blocklen: len(s), stride: len(s)}
}

// Vector describes count blocks of blocklen elements of s, whose starts are stride elements apart; such
// as a column of a matrix: Vector(m[col:], rows, 1, width). An operation on a vector that does
// not lie in s, or whose blocks overlap, returns ErrBuffer.
func Vector[T any](s []T, count, blocklen, stride int) Buffer {
	t := typeFor[T]()
	switch {
	case t.err != nil:
	case count < 0 || blocklen < 0:
		t = badBuffer("vector of %d blocks of %d elements", count, blocklen)
	case count == 0 || blocklen == 0:
		return Buffer{typ: t}
	case count > 1 && stride < blocklen:
		t = badBuffer("vector with stride %d overlaps its blocks of %d elements", stride, blocklen)
	case blocklen > len(s), count > 1 && (len(s)-blocklen)/(count-1) < stride:
		t = badBuffer("vector of %d blocks of %d elements with stride %d in a slice of %d elements", count, blocklen, stride, len(s))
	}
	if t.err != nil {
		return Buffer{typ: t}
	}
	if count == 1 || stride == blocklen {
		return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(s)), typ: t, count: 1, blocklen: count * blocklen, stride: count * blocklen}
	}
	return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(s)), typ: t, count: count, blocklen: blocklen, stride: stride}
}

func badBuffer(format string, args ...any) *elemType {
	return &elemType{err: fmt.Errorf("%w: %s", ErrBuffer, fmt.Sprintf(format, args...))}
}

// Raw describes plain memory as elements of a kind, for layers that keep memory as bytes. The
// length must be a multiple of the kind's size, and the memory aligned to it; otherwise operations return
// ErrBuffer. Kinds without a size of their own (Opaque) are refused likewise.
func Raw(p []byte, k Kind) Buffer {
	if k == None || k >= Opaque {
		return Buffer{typ: badBuffer("memory as elements of kind %v", k)}
	}
	t := kindTypes[k]
	ptr := unsafe.Pointer(unsafe.SliceData(p))
	align := min(t.size, 8)
	if len(p)%t.size != 0 || uintptr(ptr)%uintptr(align) != 0 {
		return Buffer{typ: badBuffer("%d bytes at an address with remainder %d as elements of kind %v", len(p), uintptr(ptr)%8, k)}
	}
	n := len(p) / t.size
	return Buffer{ptr: ptr, typ: t, count: 1, blocklen: n, stride: n}
}

// Err returns why the buffer cannot be used (ErrType, ErrBuffer), or nil.
func (b Buffer) Err() error {
	if b.typ == nil {
		return nil
	}
	return b.typ.err
}

// Len returns the number of elements.
func (b Buffer) Len() int { return b.count * b.blocklen }

// Bytes returns the size of the payload.
func (b Buffer) Bytes() int { return b.count * b.blocklen * b.ElemSize() }

// Kind returns the kind of the elements.
func (b Buffer) Kind() Kind {
	if b.typ == nil {
		return None
	}
	return b.typ.kind
}

// ElemSize returns the size of an element in bytes.
func (b Buffer) ElemSize() int {
	if b.typ == nil {
		return 0
	}
	return b.typ.size
}

// Contiguous returns the payload's memory itself if it is one piece.
func (b Buffer) Contiguous() ([]byte, bool) {
	if b.count > 1 {
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
	return unsafe.Slice((*byte)(unsafe.Add(b.ptr, i*b.stride*b.typ.size)), n)
}

// Slice returns the buffer of elements lo up to hi of a contiguous buffer. It panics on a strided buffer
// and on bounds outside it, as slicing does.
func (b Buffer) Slice(lo, hi int) Buffer {
	if b.count > 1 || lo < 0 || hi < lo || hi > b.Len() {
		panic(fmt.Sprintf("comm: Slice(%d, %d) of a buffer of %d elements in %d blocks", lo, hi, b.Len(), b.count))
	}
	if lo == hi {
		return Buffer{typ: b.typ}
	}
	return Buffer{ptr: unsafe.Add(b.ptr, lo*b.typ.size), typ: b.typ, count: 1, blocklen: hi - lo, stride: hi - lo}
}

// CopyToBytes copies payload, from its byte off on, to dst, and returns the number of bytes copied.
func (b Buffer) CopyToBytes(dst []byte, off int) int { return b.walk(dst, off, false) }

// CopyFromBytes copies src into the payload, from its byte off on, and returns the number of bytes copied.
func (b Buffer) CopyFromBytes(src []byte, off int) int { return b.walk(src, off, true) }

func (b *Buffer) walk(p []byte, off int, in bool) int {
	total := b.Bytes()
	if off < 0 || off >= total || len(p) == 0 {
		return 0
	}
	if b.count == 1 {
		if in {
			return copy(b.block(0)[off:], p)
		}
		return copy(p, b.block(0)[off:])
	}
	bl := b.blocklen * b.typ.size
	if bl == 8 && off == 0 && len(p) >= total {
		b.words(p, in)
		return total
	}
	n := 0
	i, skip := off/bl, off%bl
	for ; i < b.count && n < len(p); i++ {
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

// words is walk for blocks of eight bytes (a column of float64), where a call of copy per block would be most of the time.
func (b Buffer) words(p []byte, in bool) {
	step := b.stride * b.typ.size
	m := b.ptr
	q := unsafe.Pointer(unsafe.SliceData(p))
	for i := range b.count {
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

// Copy copies src to dst, any layout to any layout, in one pass, and returns the number of bytes copied.
// It returns ErrType if the element kinds differ, and ErrTruncated, with dst filled, if src is larger.
func Copy(dst, src Buffer) (int, error) {
	if err := dst.Err(); err != nil {
		return 0, err
	}
	if err := src.Err(); err != nil {
		return 0, err
	}
	if !fits(dst.Kind(), src.Kind(), dst.ElemSize(), src.ElemSize()) {
		return 0, typeMismatch(dst.Kind(), src.Kind(), dst.ElemSize(), src.ElemSize())
	}
	n := copyPayload(dst, src)
	if n < src.Bytes() {
		return n, fmt.Errorf("%w: %d bytes into %d", ErrTruncated, src.Bytes(), dst.Bytes())
	}
	return n, nil
}

func typeMismatch(want, have Kind, wantSize, haveSize int) error {
	return fmt.Errorf("%w: message of %v (%d bytes) where %v (%d bytes) is expected", ErrType, have, haveSize, want, wantSize)
}

// copyPayload copies as much as fits. Layouts are walked block by block of the side with more blocks, so
// that no intermediate memory is needed.
func copyPayload(dst, src Buffer) int {
	if s, ok := src.Contiguous(); ok {
		return dst.CopyFromBytes(s, 0)
	}
	if d, ok := dst.Contiguous(); ok {
		return src.CopyToBytes(d, 0)
	}
	total := min(dst.Bytes(), src.Bytes())
	n := 0
	for i := 0; i < src.count && n < total; i++ {
		blk := src.block(i)
		n += dst.CopyFromBytes(blk[:min(len(blk), total-n)], n)
	}
	return n
}

// takes copies a message into the buffer and returns true, if all is as it mostly is: the buffer contiguous, of the message's
// element kind and not too small. Otherwise it does nothing.
func (b *Buffer) takes(h *header, data []byte) bool {
	t := b.typ
	if t == nil || b.count != 1 || t.kind != h.elem || t.size != int(h.elemSize) || len(data) == 0 {
		return false
	}
	n := b.blocklen * t.size
	if len(data) > n || (len(data) < n && h.aux != 0) {
		return false
	}
	if len(data) == 8 {
		*(*[8]byte)(b.ptr) = [8]byte(data)
	} else {
		copy(unsafe.Slice((*byte)(b.ptr), n), data)
	}
	return true
}

// bytes returns the memory of a contiguous buffer whose payload has n bytes.
func (b *Buffer) bytes(n uint64) []byte { return unsafe.Slice((*byte)(b.ptr), n) }

// sameMemory reports whether two buffers begin at the same address (in-place collectives).
func sameMemory(a, b Buffer) bool { return a.ptr == b.ptr }

// over describes staged bytes as contiguous elements of b's type.
func (b Buffer) over(p []byte) Buffer {
	n := 0
	if b.ElemSize() > 0 {
		n = len(p) / b.typ.size
	}
	return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(p)), typ: b.typ, count: 1, blocklen: n, stride: n}
}

// elements returns the memory of a contiguous buffer as a slice of T. The caller has checked that T is the buffer's element type.
func elements[T any](b Buffer) []T { return unsafe.Slice((*T)(b.ptr), b.blocklen) }

// StreamToBytes is CopyToBytes, from the beginning of the payload, to memory that nobody on this machine will read soon, such as
// that of a file: where it pays, the copy goes around the cache, which keeps what it has.
func (b Buffer) StreamToBytes(dst []byte) int {
	size := b.blocklen * b.ElemSize()
	total := b.count * size
	if total >= stream.Least && total <= len(dst) && stream.Rows(dst, b.ptr, b.count, size, b.stride*b.typ.size) {
		return total
	}
	return b.CopyToBytes(dst, 0)
}
