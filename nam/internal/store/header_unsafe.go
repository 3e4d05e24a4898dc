// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync/atomic"
	"unsafe"
)

// The shared words of a mapped header. Preconditions: b is the start of a mapping, hence page
// aligned, and at least headerSize long.
func flagsWord(b []byte) *atomic.Uint32  { return (*atomic.Uint32)(unsafe.Pointer(&b[offFlags])) }
func epochsWord(b []byte) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[offEpochs])) }

// setBoot writes the ID of the boot in which the file begins to change. Several users may write it
// at once, all the same value. It is written in words, so a reader sees no half-written word.
func setBoot(b []byte, boot ID) {
	for i := 0; i < len(boot); i += 8 {
		(*atomic.Uint64)(unsafe.Pointer(&b[offBoot+i])).Store(ne.Uint64(boot[i:]))
	}
}

// bootOf reads the boot ID that setBoot writes.
func bootOf(b []byte) (boot ID) {
	for i := 0; i < len(boot); i += 8 {
		ne.PutUint64(boot[i:], (*atomic.Uint64)(unsafe.Pointer(&b[offBoot+i])).Load())
	}
	return boot
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
