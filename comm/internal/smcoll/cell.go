// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync/atomic"

	"weft/comm/internal/coll"
	"weft/internal/xatomic"
)

// cell holds what one rank publishes of one collective. Its rank fills the cell and publishes it by
// storing state. The rank may fill the cell again once all ranks have finished that collective.
// README.md has the states and which goroutine may write the cell in each.
type cell struct {
	state xatomic.Uint64 // number<<phaseBits | phase; written last
	what  coll.Collective
	elem  uint64 // kind and size of the elements, see coll.Call.Elem
	unit  uint64 // bytes of the rank's contribution
	floor uint64 // the rank has finished all collectives up to this number
	data  [DataMax]byte
}

// phase is what the rank of a cell is doing in the cell's collective.
type phase uint64

const (
	active  phase = 1 + iota // the rank works on the collective: it finishes it, or starts to wait
	passive                  // a request waits; the goroutine that takes the cell ends it
	// A caller sleeps. The goroutine that takes the cell ends the call; or a goroutine makes the
	// cell active and wakes the caller, to help or to go on.
	asleep
	taken // another goroutine of the rank's process has the cell and ends the operation
)

const phaseBits = 3

func stateOf(seq uint64, p phase) uint64 { return seq<<phaseBits | uint64(p) }

// isWaiting returns the state of a cell, and reports whether its rank is passive or asleep in
// collective seq.
func (p *cell) isWaiting(seq uint64) (uint64, bool) {
	s := p.state.Load()
	return s, s == stateOf(seq, passive) || s == stateOf(seq, asleep)
}

// take makes the caller the one goroutine that ends the waiting operation. The caller is in the
// process of the cell's rank.
func (p *cell) take(seq uint64) bool {
	s, ok := p.isWaiting(seq)                                   //bug:take
	return ok && p.state.CompareAndSwap(s, stateOf(seq, taken)) //bug:take
}

// same reports whether two cells describe their collective by the same words. Cells with different
// words may still be of one collective, see disagree.
func (p *cell) same(q *cell) bool { return q.what == p.what && q.unit == p.unit && q.elem == p.elem }

func (p *cell) signature() coll.Signature { return coll.NewSignature(p.what, p.elem, int(p.unit)) }

// row holds all cells of one rank. That rank writes the row, and the others read it.
type row struct {
	finished [Width]xatomic.Uint64 // by cell: the last collective in it that the rank has finished
	// In the row of rank 0: how many operations of all ranks wait for a cell.
	queuedAll xatomic.Int32
	queued    xatomic.Int32 // how many operations of this rank wait for a cell
	_         [56]byte
	// Of a large collective in mapped memory: its number, and the last step that the rank has
	// completed.
	step  xatomic.Uint64
	_     [56]byte
	cells [Width]cell
}

// pieceCount counts the pieces of a large collective on the heap. The collectives whose cells have
// the same index share one. Each word is seq<<pieceBits | count. The first rank that needs a word
// for a newer collective replaces the number in it.
type pieceCount struct {
	next atomic.Uint64 // pieces taken; allTaken if the collective is aborted
	done atomic.Uint64 // pieces finished
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
