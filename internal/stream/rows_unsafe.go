// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package stream copies to memory that nobody will look at soon, around the cache.
//
//	if !stream.Rows(dst, src, rows, size, stride) {
//		// copy as usual
//	}
//
// An ordinary store to a line that is not in the cache reads the line first, and drives another one
// out, which whoever copies a piece of his working set is then likely to miss. Stores that go
// around the cache do neither. They are slower where the destination is in the cache, and who reads
// it at once gets it from memory; hence the lower bound on the size, and callers who know their
// destination.
//
// When Rows returns, the copy is complete, and ordered before everything that the caller does then,
// for all processors, as if it had been made of ordinary stores: the fence for that is the last
// instruction of the copy. So who tells another goroutine or process that the copy is there tells
// it as usual.
//
// On amd64 it is assembly. Elsewhere, and under the race detector, which would not see it, every
// call is refused.
package stream

import "unsafe"

const (
	// line is what the processor writes to memory at once. What does not fill a line is written in
	// pieces, each at the cost of a line.
	line = 64
	// Least is the number of bytes from which on a copy goes around the cache: a guess at what is
	// still likely to be found in there by somebody. Measured with rows of 2 KiB: three fifths of
	// the time of an ordinary copy if the destination is not in the cache, and a fifth more than it
	// if it is.
	Least = 128 << 10
	// most is the size of a row from which on the language's own copy goes around the cache.
	most = 1 << 20
	// batch is how much the assembly copies at a time, or one row: it cannot be preempted.
	batch = 256 << 10
	// near and far are how far ahead of the loads the source is asked for: of a row that is on a
	// page of its own, the line of the next row, unless rows are so long that it would be gone
	// again; within a row, what the processor may not have asked for itself. Measured: one row
	// ahead is as good as two, and four are no better than none.
	near   = 1 << 10
	widest = 16 << 10
)

// Rows copies rows pieces of size bytes each, the first at src and each stride bytes after the one
// before, to dst, where they follow each other. It reports whether it did; if not, it has copied
// nothing, and the caller does. It does if all of it is at least Least bytes, and a row is below 1
// MiB, and, where there is more than one, whole lines, which dst begins with.
//
// Preconditions: the rows are in memory, and dst is not in them; 0 < rows; 0 < size <= stride. It
// panics if dst is too short.
func Rows(dst []byte, src unsafe.Pointer, rows, size, stride int) bool {
	dst = dst[:rows*size]
	if !usable || len(dst) < Least || size >= most {
		return false
	}
	to := unsafe.Pointer(unsafe.SliceData(dst))
	if rows == 1 {
		head := int(-uintptr(to) % line)
		body := (size - head) / line * line
		row := unsafe.Slice((*byte)(src), size)
		copy(dst[:head], row)
		copyRows(unsafe.Add(to, head), unsafe.Add(src, head), 1, body, 0, near)
		copy(dst[head+body:], row[head+body:])
		return true
	}
	if uintptr(to)%line != 0 || size%line != 0 {
		return false
	}
	ahead := stride
	if size > widest {
		ahead = near
	}
	for n := max(1, batch/size); ; {
		n = min(n, rows)
		copyRows(to, src, n, size, stride, ahead)
		if rows -= n; rows == 0 {
			return true
		}
		to, src = unsafe.Add(to, n*size), unsafe.Add(src, n*stride)
	}
}
