// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"math/bits"
	"unsafe"

	"weft/internal/xatomic"
)

// aside has large tables that are not in use, empty, one of each size. A program that makes one large domain after the other, such as a run for each solve, would
// leave a few hundred KiB to the garbage collector each time, and begin with memory that is in no cache.
//
// Who takes a table out has it alone: both ways are one atomic operation.
var aside [asideSizes]xatomic.Pointer[entry]

// asideSizes is how many sizes are set aside, from 2·domainMax on: up to 16,384 entries, 480 KiB together (guess).
const asideSizes = 4

// asideOf returns where tables of size entries are; nil if they are not set aside.
func asideOf(size int) *xatomic.Pointer[entry] {
	if i := bits.Len(uint(size/domainMax)) - 2; i >= 0 && i < asideSizes {
		return &aside[i]
	}
	return nil
}

// takeAside returns an empty table of size entries, a power of two; nil if there is none.
func takeAside(size int) []entry {
	p := asideOf(size)
	if p == nil || p.Load() == nil {
		return nil
	}
	first := p.Swap(nil)
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, size)
}

// setAside empties tab, which nobody uses any more, for the next domain that needs one of its size.
func setAside(tab []entry) {
	p := asideOf(len(tab))
	if p == nil || p.Load() != nil {
		return
	}
	clear(tab)
	p.CompareAndSwap(nil, unsafe.SliceData(tab))
}
