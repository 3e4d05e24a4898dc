// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"math/bits"
	"sync"
)

// Block is pooled memory for unexpected messages and for the partial results of collectives,
// aligned for every kind.
type Block struct {
	B     []byte // capacity is the size of the class
	class int    // -1: too large to be pooled
}

const (
	minClass = 6  // 64 bytes
	maxClass = 22 // 4 MiB
)

var blockPools [maxClass + 1]sync.Pool

// NewBlock returns a block of n bytes with undefined contents.
func NewBlock(n int) *Block {
	class := max(minClass, bits.Len(uint(max(n, 1)-1)))
	if class > maxClass {
		return &Block{B: make([]byte, n), class: -1}
	}
	if v := blockPools[class].Get(); v != nil {
		b := v.(*Block)
		b.B = b.B[:n]
		return b
	}
	return &Block{B: make([]byte, n, 1<<class), class: class}
}

// Free returns the block to its pool. The caller is its last user.
func (b *Block) Free() {
	if b.class >= 0 {
		blockPools[b.class].Put(b)
	}
}
