// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync/atomic"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/internal/processors"
	"weft/internal/xatomic"
)

const (
	// up to here each rank looks at the places of all others; a guess: 32 lines cost what five
	// messages do
	FlatRanks = 32
	MaxMapped = 64 // communicators that can meet in mapped memory; the others have messages
)

// Host is the rank that has a seat.
type Host interface {
	// Barred returns why no collective can go on; nil if nothing is in its way.
	Failure() error
	// Fail is the error of a collective as the program sees it.
	Fail(what coll.Collective, err error) error
	// Compare compares the history with what ranks have told that are ahead of this one.
	Compare()
	// Explain returns what rank r says of a disagreement, which is err as far as this rank can see.
	// It may wait.
	Explain(r int, err error) error
	// Panic is the text of what an operator has panicked with, for other ranks; Panicked makes the
	// error of one of rank r.
	Panic(err error) []byte
	Panicked(r int, text []byte) error
	// Nudge has rank r, of another process, Look.
	Nudge(r int)
	// Watch looks for a while whether ready says so, and makes progress meanwhile.
	Watch(ready func() bool)
	// Number numbers the collectives that may be made of messages. The history is locked.
	Number() uint64
	// Memory returns that of a rank, in which it shows its parts.
	Memory(r int) ([]byte, error)
	// Lost returns what becomes of a collective if the memory of rank r cannot be had, for a
	// reason. It may wait.
	Lost(r int, err error) error
}

// Request is what waits for a collective. It keeps its seat alive.
type Request interface {
	Complete(err error)
	// Messages makes the collective of messages, under d.Seq, and then completes.
	UseMessages(d *coll.Call)
}

// Segment is where the ranks of a communicator meet, as one process has it.
type Segment struct {
	// Constant after construction.
	size int
	// processors that run Go code: where there are fewer than ranks, it does not pay to watch
	procs  int
	mapped bool // of one rank, whose seat is the only one; else all ranks are in this process

	rows []xatomic.Pointer[row] // by rank; nil before it has been here, or is known here
	// by rank; set before its part; nil for ranks of other processes
	members   []xatomic.Pointer[Member]
	queuedAll *xatomic.Int32 // of all ranks; set before parts are, constant then

	drains xatomic.Int32 // calls of drain under way; the first one works for all
	heap
}

// heap is what the ranks of one process share beside their parts.
type heap struct {
	queued   xatomic.Int32
	// the last collective for which a rank has been left to another processor
	spreadAt xatomic.Uint64
	counts   [Width]pieceCount
}

func newSegment(size int, mapped bool) *Segment {
	// full cache lines
	st := &Segment{size: size, procs: processors.Count(), mapped: mapped, rows: make([]xatomic.Pointer[row], size, (size+7)&^7), members: make([]xatomic.Pointer[Member], size, (size+7)&^7)}
	st.queuedAll = &st.heap.queued
	return st
}

// place returns that of a rank for a collective; nil if the rank has not been here.
func (st *Segment) cell(rank int, seq uint64) *cell {
	if p := st.rows[rank].Load(); p != nil {
		return &p.cells[seq%Width]
	}
	return nil
}

// entry returns what the process of a rank knows of it. The rank has been here.
func (st *Segment) entry(rank int, seq uint64) *entry {
	return &st.members[rank].Load().entries[seq%Width]
}

// pieced reports whether a collective is made in pieces, by all ranks that are there.
func (st *Segment) inPieces(d *coll.Call) bool { return d.Large && !st.mapped }

// at reports whether a rank's part of a collective is there.
func (st *Segment) hasPublished(rank int, seq uint64) bool {
	p := st.cell(rank, seq)
	return p != nil && p.state.Load()>>phaseBits == seq
}

// here returns the first rank, from a given one on, whose part of a collective is not there yet;
// the size if all are.
func (st *Segment) firstMissing(seq uint64, from int) int {
	for ; from < st.size && st.hasPublished(from, seq); from++ {
	}
	return from
}

func (st *Segment) pieceCount(seq uint64) *pieceCount { return &st.counts[seq%Width] }

// Member is a rank's place at a stage.
type Member struct {
	// Constant after construction, entries and mine from the first collective on.
	st        *Segment
	rank      int
	host      Host
	hist      *coll.History
	hasFailed *atomic.Bool    // whether Barred is to be asked
	index     int             // of mapped memory: which part
	staging   *Staging        // likewise: for large collectives
	reached   func() bool     // likewise: come, made once
	buffers   []stagingBuffer // likewise, from the first collective on: by rank
	row       *row
	entries   *[Width]entry
	_         [16]byte

	known xatomic.Uint64 // some number such that all ranks have finished all collectives up to it
	woke  atomic.Bool    // the rank's last collective has woken a sleeping caller
	wakes atomic.Uint32  // how many have, since it has looked often and found
	found atomic.Uint32  // how often it has looked and found, one after the other

	pins   xatomic.Int32 // goroutines that use mapped memory, which is there until they are gone
	closed xatomic.Bool  // no goroutine may come any more

	next  uint64     // guarded by hist.Mu: the rank's last collective
	floor uint64     // guarded by hist.Mu: the rank has finished all up to this one
	queue []queuedOp // guarded by hist.Mu: what waits for a place, oldest first
	_     [56]byte
}

// entry is what the process of a rank knows of its part of a collective, beside the place: what is
// needed to end it. A caller that ends it itself needs none.
type entry struct {
	coll.Call
	filled bool
	order  atomic.Uint32 // see release
	req    Request       // nil: a caller
	waiter *waiter       // of a caller that sleeps; set before it is asleep
	// of large ones on the heap: the memory, or a copy where buffers are strided
	inMem     []byte
	outMem    []byte
	packedIn  *mem.Block
	packedOut *mem.Block
}

// waiter is a sleeping caller.
type waiter struct {
	ch  signal // capacity 1
	err error  // written before the token that says that it is over

	// What it looks for, while it looks.
	st    *Segment
	call  coll.Call
	rank  int
	seq   uint64
	ready func() bool
}

type queuedOp struct {
	d        coll.Call
	req      Request // nil: see Note
	messages bool    // see Turn
}

// Windows are those of one rank, which one caller has at a time.
type Staging struct {
	mu      xatomic.VisibleMutex
	held    bool // guarded by mu
	retired bool // guarded by mu: somebody has given up: others may read it for ever
	// guarded by mu: where it is used, or was used last, by whose ranks it may be read until they
	// are over with
	last *Member
	seq  uint64 // guarded by mu: this collective

	// so far all ranks are to come; written by the caller that has the window
	want    xatomic.Uint64
	failure error          // the reason for it to give up
}

// window is memory of a rank through which the ranks make large collectives.
type stagingBuffer struct {
	in     []byte // what others combine
	result []byte // what this rank has combined
}

// view is what all show in one collective. Places are active or claimed.
type view struct {
	st  *Segment
	seq uint64
}

// Part returns what a rank shows in a collective.
func (v view) Part(r int) []byte { return v.st.cell(r, v.seq).data[:] }
