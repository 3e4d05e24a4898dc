// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"sync"
	"sync/atomic"

	"weft/internal/processors"
)

// Cocopy is a large copy, shared between the two sides of a message when one of them is parked in
// its call: whoever came second wakes the other one before the copy instead of after it, and both
// take pieces until there are none left. Two cores copy more than one, and the woken side gets a
// warm half. If the woken side gets no processor in time, it finds everything done and goes on;
// nothing waits for it then.
//
//	open ──join (woken side)──→ joined    both take pieces; who ends second releases who ended first
//	  └────close (other side)──→ closed    all pieces were copied without the woken side
//
// The side that ended first parks until the other has finished its last piece, so neither returns
// while its memory is in use.
type Cocopy struct {
	owner chan struct{} // constant: releases the side that came second; capacity 1

	// Constant from taking it out of the pool until both sides have left.
	dst, src []byte
	helper   chan struct{} // wakes the blocked side, and releases it at the end

	state atomic.Uint32 // open, joined, closed
	next  atomic.Int64  // offset of the first piece that nobody has taken
	ends  atomic.Int32  // sides that have ended, once joined
	users atomic.Int32  // sides that may still look; the last one returns it to the pool
}

var cocopies = sync.Pool{New: func() any { return &Cocopy{owner: make(chan struct{}, 1)} }}

// NewCocopy returns a copy whose helper, who will be woken by its channel, is to call Help.
func NewCocopy(dst, src []byte, helper chan struct{}) *Cocopy {
	j := cocopies.Get().(*Cocopy)
	j.dst, j.src, j.helper = dst, src, helper
	j.state.Store(open)
	j.next.Store(0)
	j.ends.Store(0)
	j.users.Store(2)
	return j
}

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
	// cocopyMin is the size from which copies are shared: to wake somebody on another core takes
	// about as long as to copy 64 KiB, so below some hundred KiB little would be left to share.
	// From the benchmark of 1 MiB messages.
	cocopyMin = 256 << 10
	// cocopyPiece is small enough to end together, and large enough that taking it costs nothing
	// beside it.
	cocopyPiece = 64 << 10
)

// Shareable reports whether a copy is worth sharing and returns its two sides.
func Shareable(dst, src *Buffer) (d, s []byte, ok bool) {
	if src.Strided() || dst.Strided() || min(src.Bytes(), dst.Bytes()) < cocopyMin || processors.Count() < 2 {
		return nil, nil, false
	}
	d, _ = dst.Contiguous()
	s, _ = src.Contiguous()
	return d[:min(len(d), len(s))], s[:min(len(d), len(s))], true
}

// Run wakes the helper and copies. When it returns, everything is copied. The job must be in the
// helper's operation before.
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

// Help is what a woken side does with the job that it finds, if it finds one. It returns nil, to
// forget the job by.
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
