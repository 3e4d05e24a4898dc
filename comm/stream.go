// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/internal/stream"

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
