// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"
)

// Each file begins with a header of one page; the data follows at offset headerSize.
//
//	 0  magic "WEFTNAM1"
//	 8  version   u32
//	12  flags     u32, atomic: volatile, doomed, broken (meaningful in the first file)
//	16  epochs    u64, atomic: fences of the creating group that are complete (meaningful in the first file)
//	24  id        16 bytes
//	40  data      u64, bytes of data
//
// Everything but flags and epochs is constant after creation. The two words are shared between processes; volatile and
// doomed change under the exclusive store lock only, broken is only ever set, epochs only grows.
const (
	headerSize    = 4096
	headerMagic   = "WEFTNAM1"
	headerVersion = 1

	offVersion, offFlags, offEpochs, offID, offData = 8, 12, 16, 24, 40

	headVolatile uint32 = 1 << 0 // the last user's release must reclaim it
	headDoomed   uint32 = 1 << 1 // removed; likewise
	headBroken   uint32 = 1 << 2 // an epoch could not be made durable; the epoch count has stopped
)

func fileSize(data uint64) uint64 {
	return headerSize + (data+headerSize-1)/headerSize*headerSize
}

func fillHeader(b []byte, id ID, data uint64, flags uint32) {
	copy(b, headerMagic)
	le := binary.NativeEndian
	le.PutUint32(b[offVersion:], headerVersion)
	le.PutUint32(b[offFlags:], flags)
	le.PutUint64(b[offEpochs:], 0)
	copy(b[offID:], make([]byte, 16))
	copy(b[offID:], id[:])
	le.PutUint64(b[offData:], data)
}

func checkHeader(b []byte, f File) error {
	if string(b[:8]) != headerMagic {
		return fmt.Errorf("%w: file %v does not begin with a header", ErrCorrupt, f.ID)
	}
	if v := binary.NativeEndian.Uint32(b[offVersion:]); v != headerVersion {
		return fmt.Errorf("%w: file %v has version %d, this program knows %d", ErrVersion, f.ID, v, headerVersion)
	}
	if ID(b[offID:offID+16]) != f.ID || binary.NativeEndian.Uint64(b[offData:]) != f.Bytes {
		return fmt.Errorf("%w: the header of file %v describes another file", ErrCorrupt, f.ID)
	}
	return nil
}

// flagsWord and epochsWord are the shared words of a mapped header. Preconditions: b is the start of a mapping, hence
// page aligned, and at least headerSize long.
func flagsWord(b []byte) *atomic.Uint32  { return (*atomic.Uint32)(unsafe.Pointer(&b[offFlags])) }
func epochsWord(b []byte) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[offEpochs])) }

// pageSize for rounding ranges that are handed to the kernel.
var pageSize = os.Getpagesize()
