// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package stream copies to memory around the cache, where no processor will read the copy soon.
//
//	if !stream.Rows(dst, src, rows, size, stride) {
//		// copy as usual
//	}
//
// An ordinary store to a line that is not in the cache first reads the line, and evicts another
// one. The evicted line may belong to the working set that the caller copies from. Stores around
// the cache do neither. They are slower where the destination is in the cache, and a reader that
// follows at once must read memory. Hence the lower bound on the size, and hence only callers that
// know their destination use this package.
//
// When Rows returns, the copy is complete. For all processors it is ordered before everything that
// the caller does next, as if ordinary stores had made it: the last instruction of the copy is a
// fence. So the caller announces the copy to another goroutine or process as usual.
//
// On amd64 the copy is assembly. Elsewhere, and under the race detector, which would not see the
// assembly's stores, Rows refuses every call.
package stream

import "unsafe"

const (
	// line is the size of a cache line, which the processor writes to memory at once. It writes
	// parts of a line in pieces, each at the cost of a line.
	line = 64
	// Least is the smallest copy in bytes that goes around the cache: a guess at the size up to
	// which a reader is likely to find the copy still in the cache. Measured with rows of 2 KiB:
	// three fifths of the time of an ordinary copy if the destination is not in the cache, and a
	// fifth more than an ordinary copy if it is.
	Least = 128 << 10
	// most is the smallest row for which Go's own copy goes around the cache.
	most = 1 << 20
	// batch limits what the assembly copies at a time, or it copies one row: the assembly cannot be
	// preempted.
	batch = 256 << 10
	// Prefetch distances before the loads. Several rows of up to widest bytes: one stride, that is
	// the same line of the next row, which may be on another page. A single row, or longer rows:
	// near bytes within the row, where the processor may not have prefetched itself; a line of the
	// next row would be evicted again before its load. Measured: one row ahead is as good as two,
	// and four are no better than none.
	near   = 1 << 10
	widest = 16 << 10
)

// Rows copies rows pieces of size bytes each to dst, where they follow each other. The first piece
// is at src, and each next one stride bytes after the one before. Rows reports whether it has
// copied; if not, it has copied nothing, and the caller copies as usual. It copies if the pieces
// together have at least Least bytes and one piece is below 1 MiB. If there are several pieces,
// each must also be a multiple of 64 bytes, and dst must begin on a cache line.
//
// Preconditions: the source rows are mapped memory, and dst does not overlap them; 0 < rows; 0 <
// size <= stride. Rows panics if dst is too short.
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
