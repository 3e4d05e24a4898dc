// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync/atomic"

	"weft/comm/internal/coll"
	"weft/internal/xatomic"
)

// place is what one rank shows of one collective. Its rank fills it, publishes it by state, and may
// fill it anew when all ranks have finished that collective.
type cell struct {
	state xatomic.Uint64 // number<<phaseBits | phase; written last
	what  coll.Collective
	elem  uint64 // what the elements are
	unit  uint64 // how many bytes
	floor uint64 // the rank has finished all up to this one
	data  [DataMax]byte
}

// phase is what a place's rank is doing.
type phase uint64

const (
	active phase = 1 + iota // it is at it, and ends it itself or lets it wait
	// a request: the rank that completes what it waits for claims and ends it
	passive
	// a caller that sleeps: likewise; or it is made active and woken, to help
	asleep
	taken // somebody else ends it
)

const phaseBits = 3

func stateOf(seq uint64, p phase) uint64 { return seq<<phaseBits | uint64(p) }

// waits returns the state of a place whose rank is passive or asleep in a collective, if it is.
func (p *cell) isWaiting(seq uint64) (uint64, bool) {
	s := p.state.Load()
	return s, s == stateOf(seq, passive) || s == stateOf(seq, asleep)
}

// claim makes the caller, of the rank's process, the one goroutine that ends what waits.
func (p *cell) take(seq uint64) bool {
	s, ok := p.isWaiting(seq)                                   //bug:take
	return ok && p.state.CompareAndSwap(s, stateOf(seq, taken)) //bug:take
}

// same reports whether two places say the same. Those that do not may be of one collective
// nevertheless.
func (p *cell) same(q *cell) bool { return q.what == p.what && q.unit == p.unit && q.elem == p.elem }

func (p *cell) signature() coll.Signature { return coll.NewSignature(p.what, p.elem, int(p.unit)) }

// part is what one rank shows: it writes, the others read.
type row struct {
	finished [Width]xatomic.Uint64 // by place: the last collective in it that the rank has finished
	// of rank 0's part: how many operations of all ranks wait for a place
	queuedAll xatomic.Int32
	queued    xatomic.Int32 // how many of this rank do
	_         [56]byte
	// of a large collective in mapped memory: its number, and what the rank has done of it
	step  xatomic.Uint64
	_     [56]byte
	cells [Width]cell
}

// slot is what the places of one collective share: the pieces of large ones. A word is
// seq<<pieceBits | count, and the first rank that needs it for a new collective moves it there.
type pieceCount struct {
	next atomic.Uint64 // pieces that somebody has taken; allTaken if the collective is aborted
	done atomic.Uint64 // pieces that are finished
	err  atomic.Pointer[pieceError]
	_    [40]byte
}

type pieceError struct {
	seq uint64
	err error
}

const (
	pieceBits = 20
	allTaken  = 1<<pieceBits - 1
)
