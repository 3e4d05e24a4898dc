// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// block is pooled memory for unexpected messages and for the partial results of collectives, aligned for every kind.
type block struct {
	b     []byte // capacity is the size of the class
	class int    // -1: too large to be pooled
}

const (
	minClass = 6  // 64 bytes
	maxClass = 22 // 4 MiB
)

var blockPools [maxClass + 1]sync.Pool

// newBlock returns a block of n bytes with undefined contents.
func newBlock(n int) *block {
	class := max(minClass, bits.Len(uint(max(n, 1)-1)))
	if class > maxClass {
		return &block{b: make([]byte, n), class: -1}
	}
	if v := blockPools[class].Get(); v != nil {
		b := v.(*block)
		b.b = b.b[:n]
		return b
	}
	return &block{b: make([]byte, n, 1<<class), class: class}
}

func (b *block) free() {
	if b.class >= 0 {
		blockPools[b.class].Put(b)
	}
}

// slabSize is how many receives are allocated together. Whoever keeps one of them keeps all from the collector, but not their buffers.
const slabSize = 9

// recvSlab is receives for requests, which cannot be used again: the program may hold them for as long as it likes.
type recvSlab struct {
	taken atomic.Uint32
	ops   [slabSize]recvOp
}

// newRecvRequest returns a zero receive for a request.
func (p *proc) newRecvRequest() *recvOp {
	for {
		s := p.slab.Load()
		if s != nil {
			if n := s.taken.Add(1); n <= slabSize {
				return &s.ops[n-1]
			}
		}
		fresh := new(recvSlab)
		fresh.taken.Store(1)
		if p.slab.CompareAndSwap(s, fresh) {
			return &fresh.ops[0]
		}
	}
}
