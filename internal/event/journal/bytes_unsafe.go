// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"unsafe"

	"weft/internal/event"
)

// littleEndian says that records are in memory as they are in files.
var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

// Fails to compile when a record is not its four words.
const _ = -(unsafe.Sizeof(event.Record{}) ^ recordSize)

// appendRecords appends records as they are in files.
func appendRecords(b []byte, recs []event.Record) []byte {
	if !littleEndian {
		for i := range recs {
			b = appendRecord(b, &recs[i])
		}
		return b
	}
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(recs))), len(recs)*recordSize)...)
}
