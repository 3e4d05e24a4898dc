// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package stream copies to memory that nobody will look at soon, around the cache.
//
//	if !stream.Rows(dst, src, rows, size, stride) {
//		// copy as usual
//	}
//
// An ordinary store to a line that is not in the cache reads the line first, and drives another one out, which whoever copies a piece
// of his working set is then likely to miss. Stores that go around the cache do neither. They are slower where the
// destination is in the cache, and who reads it at once gets it from memory; hence the lower bound on the size, and callers who
// know their destination.
//
// When Rows returns, the copy is complete, and ordered before everything that the caller does then, for all processors, as if it had
// been made of ordinary stores: the fence for that is the last instruction of the copy. So who tells another goroutine or process that
// the copy is there tells it as usual.
//
// On amd64 it is assembly. Elsewhere, and under the race detector, which would not see it, every call is refused.
package stream
