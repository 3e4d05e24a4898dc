//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"unsafe"

	"weft/internal/fabric"
	"weft/internal/xatomic"
)

// The first word of a frame: the length of the data, the kind, the origin, the target, and a bit
// that is always set.
const (
	kindShift   = 20
	originShift = kindShift + 8
	targetShift = originShift + rankBits
	spareShift  = targetShift + rankBits
	valid       = 1 << 63
	rankMask    = 1<<rankBits - 1
)

// The kinds of frames. For control frames, the words of the head are given.
const (
	kindFrame = 1 + iota // for the handler
	kindWrap             // no frame: the rest of the ring is not used in this lap
	kindClose            // the last frame
	kindPiece            // a part of a transfer: key, offset; and its bytes
	kindOffer            // a transfer can be read: key, address, bytes
	// the sender may help to write: key, address, bytes, counter and generation
	kindInvite
	kindOver // a transfer has ended: key, 1 if the transfer's sender reports it
	numKinds
)

// ring is one side (producer or consumer) of one direction between two processes: the shared
// memory, and this side's position.
type ring struct {
	data []byte // ringSize
	ctl  *ringControl

	// position of the next frame to write (producer) or read (consumer); only grows
	pos       uint64
	published uint64 // consumer: the value of ctl.head
	head      uint64 // producer: the value of ctl.head when last read
}

// ringControl is the shared memory of a ring besides its data.
type ringControl struct {
	head     xatomic.Uint64 // all before this position is consumed; written by the consumer
	_        [lineSize - 8]byte
	waiting  xatomic.Uint32 // the producer has frames that do not fit
	joined   xatomic.Uint32 // there is a producer
	_        [lineSize - 8]byte
	counters [numCounters]chunkCounter
}

// word returns the first word of the line at off.
func (r *ring) word(off uint64) *xatomic.Uint64 {
	return (*xatomic.Uint64)(unsafe.Pointer(&r.data[off]))
}

// words returns the head of the frame at off.
func (r *ring) words(off uint64) *[fabric.HeadWords]uint64 {
	return (*[fabric.HeadWords]uint64)(unsafe.Pointer(&r.data[off+8]))
}

// lines rounds n bytes up to whole cache lines.
func lines(n int) uint64 { return (uint64(n) + lineSize - 1) &^ (lineSize - 1) }

// put writes a frame; false if there is no room. Producer.
func (r *ring) put(kind uint64, f *fabric.Frame) bool {
	off := r.pos & (ringSize - 1)
	need := lines(headSize + len(f.Data))
	total := need
	if off+need > ringSize {
		total += ringSize - off
	}
	if r.pos+total-r.head > ringSize {
		// Ignore a head that makes no sense: it only keeps this side from sending.
		if h := r.ctl.head.Load(); h <= r.pos {
			r.head = max(r.head, h)
		}
		if r.pos+total-r.head > ringSize {
			return false
		}
	}
	if total > need {
		r.word(off).Store(valid | kindWrap<<kindShift)
		r.pos += ringSize - off
		off = 0
	}
	*r.words(off) = f.Head
	copy(r.data[off+headSize:], f.Data)
	r.word(off).Store(valid | uint64(f.Target)&rankMask<<targetShift | uint64(f.Origin)&rankMask<<originShift | kind<<kindShift | uint64(len(f.Data)))
	r.pos += need
	return true
}

// ready reports whether there is a frame. Consumer.
func (r *ring) ready() bool { return r.word(r.pos&(ringSize-1)).Load() != 0 }

// get returns the next frame, whose data stay in the ring until done(n); kind 0 if there is none.
// Consumer.
func (r *ring) get(f *fabric.Frame) (kind uint64, n uint64, err error) {
	for {
		off := r.pos & (ringSize - 1)
		w := r.word(off).Load()
		if w == 0 {
			return 0, 0, nil
		}
		kind = w >> kindShift & (1<<(originShift-kindShift) - 1)
		length := w & (1<<kindShift - 1)
		switch {
		case w>>spareShift != valid>>spareShift:
		case w == valid|kindWrap<<kindShift && off != 0:
			r.word(off).Store(0)
			r.pos += ringSize - off
			continue
		case kind > 0 && kind < numKinds && kind != kindWrap && length <= MaxFrame && off+lines(headSize+int(length)) <= ringSize:
			f.Origin, f.Target = int32(w>>originShift&rankMask), int32(w>>targetShift&rankMask)
			f.Head = *r.words(off)
			f.Data = r.data[off+headSize : off+headSize+length : off+headSize+length]
			return kind, lines(headSize + int(length)), nil
		}
		return 0, 0, fmt.Errorf("a malformed frame at byte %d of its ring: first word %#x", off, w)
	}
}

// done gives back a frame of n bytes and reports whether the producer is to be woken. Consumer.
func (r *ring) done(n uint64) (wake bool) {
	off := r.pos & (ringSize - 1)
	for i := off; i < off+n; i += lineSize {
		*(*uint64)(unsafe.Pointer(&r.data[i])) = 0
	}
	r.pos += n
	if r.pos-r.published >= maxLag {
		r.publish()
	}
	// After the position is published: a producer that begins to wait after this load finds the
	// position.
	if r.ctl.waiting.Load() == 0 {
		return false
	}
	r.ctl.waiting.Store(0)
	r.publish()
	return true
}

func (r *ring) publish() {
	r.published = r.pos
	r.ctl.head.Store(r.pos)
}
