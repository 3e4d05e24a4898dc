// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"fmt"

	"weft/internal/fabric"
)

// A frame on the wire, all numbers little-endian: the length of the data (4 bytes), the kind (4), the words of the head (8 each), the data.
const headSize = 8 + 8*fabric.HeadWords

const (
	kindFrame = 1
	kindClose = 2 // the last one: this side will send no more
	kindPiece = 3 // of a transfer: the first two words of the head are its key and the offset
)

func appendHead(b []byte, kind uint32, f *fabric.Frame) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	for _, w := range f.Head {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// parseHead returns the kind of a frame and the length of its data.
func parseHead(b []byte, f *fabric.Frame) (kind uint32, n int, err error) {
	size := binary.LittleEndian.Uint32(b)
	kind = binary.LittleEndian.Uint32(b[4:])
	switch {
	case kind == kindFrame && size <= MaxFrame, kind == kindPiece && size <= maxPiece:
	case kind == kindClose && size == 0:
	default:
		return 0, 0, fmt.Errorf("a frame of kind %d with %d bytes", kind, size)
	}
	for i := range f.Head {
		f.Head[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	return kind, int(size), nil
}
