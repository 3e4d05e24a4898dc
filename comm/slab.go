// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "sync/atomic"

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
