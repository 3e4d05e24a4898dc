// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import "unsafe"

func wordBytes(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))
}
