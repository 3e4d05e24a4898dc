// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"unsafe"

	"weft/internal/event"
)

// littleEndian says that records have the same bytes in memory and in files.
var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

// This line fails to compile if a record is not just its four words.
const _ = -(unsafe.Sizeof(event.Record{}) ^ recordSize)

// appendRecords appends the file format of some records.
func appendRecords(b []byte, recs []event.Record) []byte {
	if !littleEndian {
		for i := range recs {
			b = appendRecord(b, &recs[i])
		}
		return b
	}
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(recs))), len(recs)*recordSize)...)
}
