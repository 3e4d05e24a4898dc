// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"sync"
	"sync/atomic"

	"weft/internal/processors"
)

// Cocopy is a large copy that both sides of a message share when one of them is parked in its call.
// The side that comes second, the owner, wakes the parked one, the helper, before the copy instead
// of after it. Both take pieces until none are left.
//
//	open ──join (helper)──→ joined     both take pieces; the side that ends second releases the first
//	  └────close (owner)──→ closed     the owner has copied all pieces
//
// Two cores copy faster than one, and half of the data is in the helper's cache afterwards. If the
// helper gets no processor in time, it finds everything copied and goes on; the owner does not wait
// for it then. In state joined, the side that ends first parks until the other one has finished its
// last piece. So neither returns while its memory is in use.
type Cocopy struct {
	owner chan struct{} // constant: releases the owner; capacity 1

	// Constant from NewCocopy until both sides have left.
	dst, src []byte
	helper   chan struct{} // wakes the helper, and releases it at the end

	state atomic.Uint32 // open, joined, closed
	next  atomic.Int64  // offset of the first piece that is not taken
	ends  atomic.Int32  // sides that have ended, if joined
	users atomic.Int32  // sides that may still use the Cocopy; the last one returns it to the pool
}

var cocopies = sync.Pool{New: func() any { return &Cocopy{owner: make(chan struct{}, 1)} }}

// NewCocopy returns a copy. Its helper is woken by the channel helper, and must then call Help.
func NewCocopy(dst, src []byte, helper chan struct{}) *Cocopy {
	j := cocopies.Get().(*Cocopy)
	j.dst, j.src, j.helper = dst, src, helper
	j.state.Store(open)
	j.next.Store(0)
	j.ends.Store(0)
	j.users.Store(2)
	return j
}

// leave ends the caller's use of j.
func (j *Cocopy) leave() {
	if j.users.Add(-1) == 0 {
		j.dst, j.src, j.helper = nil, nil, nil
		cocopies.Put(j)
	}
}

const (
	open = iota
	joined
	closed
)

const (
	// cocopyMin is the size in bytes from which copies are shared. Waking a goroutine on another
	// core takes about as long as copying 64 KiB, so below some hundred KiB little is left to
	// share. From the benchmark of 1 MiB messages.
	cocopyMin = 256 << 10
	// cocopyPiece is small enough that both sides end at about the same time, and so large that
	// taking a piece costs little.
	cocopyPiece = 64 << 10
)

// Shareable reports whether a copy is worth sharing, and returns the memory of both sides.
func Shareable(dst, src *Buffer) (d, s []byte, ok bool) {
	if src.Strided() || dst.Strided() || min(src.Bytes(), dst.Bytes()) < cocopyMin || processors.Count() < 2 {
		return nil, nil, false
	}
	d, _ = dst.Contiguous()
	s, _ = src.Contiguous()
	return d[:min(len(d), len(s))], s[:min(len(d), len(s))], true
}

// Run is the owner's part: it wakes the helper and copies. When it returns, everything is copied.
// The caller has stored j in the helper's operation before.
func (j *Cocopy) Run() {
	j.helper <- struct{}{}
	j.pieces()
	if !j.state.CompareAndSwap(open, closed) {
		if j.ends.Add(1) == 2 {
			j.helper <- struct{}{}
		} else {
			<-j.owner
		}
	}
	j.leave()
}

// Help is the helper's part after it is woken; j is nil if there is no copy to share. Help returns
// nil, for the caller to overwrite its pointer.
func (j *Cocopy) Help() *Cocopy {
	if j == nil {
		return nil
	}
	if j.state.CompareAndSwap(open, joined) {
		j.pieces()
		if j.ends.Add(1) == 2 {
			j.owner <- struct{}{}
		} else {
			<-j.helper
		}
	}
	j.leave()
	return nil
}

// pieces copies pieces until none are left.
func (j *Cocopy) pieces() {
	n := int64(len(j.dst))
	for {
		lo := j.next.Add(cocopyPiece) - cocopyPiece
		if lo >= n {
			return
		}
		hi := min(lo+cocopyPiece, n)
		copy(j.dst[lo:hi], j.src[lo:hi])
	}
}
