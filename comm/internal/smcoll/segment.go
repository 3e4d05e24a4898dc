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
	// FlatRanks is the largest number of ranks of which each reads the cells of all others. A
	// guess: 32 cache lines cost as much as five messages.
	FlatRanks = 32
	// MaxMapped is how many communicators can have rows in mapped memory. The others use messages.
	MaxMapped = 64
)

// Host is the rank of a [Member], as the rest of package comm has it.
type Host interface {
	// Failure returns why no collective of this rank can go on; nil if nothing prevents that.
	Failure() error
	// Fail returns the error of a collective as the program sees it.
	Fail(what coll.Collective, err error) error
	// Compare compares the history with the histories that ranks further ahead have sent.
	Compare()
	// Explain returns rank r's account of a disagreement; err is what this rank can see of it.
	// Explain may wait.
	Explain(r int, err error) error
	// Panic returns the text of an operator's panic, for other ranks. Panicked makes the error of
	// such a text of rank r.
	Panic(err error) []byte
	Panicked(r int, text []byte) error
	// Nudge has the process of rank r call [Segment.Progress]. Rank r is in another process.
	Nudge(r int)
	// Watch polls for messages until ready returns true, or until a budget is used up.
	Watch(ready func() bool)
	// Number returns the next number of the collectives that may run by messages. The history is
	// locked.
	Number() uint64
	// Memory returns the memory of rank r that has its rows.
	Memory(r int) ([]byte, error)
	// Lost returns the error of a collective when the memory of rank r is not available because of
	// err. Lost may wait.
	Lost(r int, err error) error
}

// Request is a request for a collective. A Request keeps its [Member] alive.
type Request interface {
	Complete(err error)
	// UseMessages runs the collective by messages, under the number d.Seq, and then completes.
	UseMessages(d *coll.Call)
}

// Segment is the memory that the ranks of a communicator share for collectives, as one process sees
// it.
type Segment struct {
	// Constant after construction.
	size int
	// Processors that run Go code. If there are fewer than ranks, callers do not spin.
	procs  int
	mapped bool // only one rank is in this process; else all are

	rows []xatomic.Pointer[row] // by rank; nil before its first collective, or before it is mapped
	// By rank; set before the rank's row; nil for ranks of other processes.
	members   []xatomic.Pointer[Member]
	queuedAll *xatomic.Int32 // counter of all ranks; set before the rows, constant then

	drains xatomic.Int32 // calls of drain under way; the first one works for all
	heap
}

// heap is what the ranks of one process share besides their rows.
type heap struct {
	queued xatomic.Int32
	// Up to this collective, callers poll with the budget pollSpread, see spread.
	spreadAt xatomic.Uint64
	counts   [Width]pieceCount
}

func newSegment(size int, mapped bool) *Segment {
	// The slices fill whole cache lines.
	st := &Segment{size: size, procs: processors.Count(), mapped: mapped, rows: make([]xatomic.Pointer[row], size, (size+7)&^7), members: make([]xatomic.Pointer[Member], size, (size+7)&^7)}
	st.queuedAll = &st.heap.queued
	return st
}

// cell returns the cell of a rank for a collective; nil if the rank has no row yet.
func (st *Segment) cell(rank int, seq uint64) *cell {
	if p := st.rows[rank].Load(); p != nil {
		return &p.cells[seq%Width]
	}
	return nil
}

// entry returns the entry of a rank of this process for a collective. The rank has a row.
func (st *Segment) entry(rank int, seq uint64) *entry {
	return &st.members[rank].Load().entries[seq%Width]
}

// inPieces reports whether all ranks share the work of a collective, piece by piece.
func (st *Segment) inPieces(d *coll.Call) bool { return d.Large && !st.mapped }

// hasPublished reports whether a rank has published its contribution to a collective.
func (st *Segment) hasPublished(rank int, seq uint64) bool {
	p := st.cell(rank, seq)
	return p != nil && p.state.Load()>>phaseBits == seq
}

// firstMissing returns the first rank, not before from, that has not published its contribution to
// a collective; the size if there is none.
func (st *Segment) firstMissing(seq uint64, from int) int {
	for ; from < st.size && st.hasPublished(from, seq); from++ {
	}
	return from
}

func (st *Segment) pieceCount(seq uint64) *pieceCount { return &st.counts[seq%Width] }

// Member is one rank's access to a [Segment].
type Member struct {
	// Constant after construction; row and entries from the first collective on.
	st        *Segment
	rank      int
	host      Host
	hist      *coll.History
	hasFailed *atomic.Bool    // whether Host.Failure may return an error
	index     int             // mapped memory: the number of the row in each rank's memory
	staging   *Staging        // mapped memory: for large collectives
	reached   func() bool     // mapped memory: the method allReached, bound once
	buffers   []stagingBuffer // mapped memory, from the first collective on: by rank
	row       *row
	entries   *[Width]entry
	_         [16]byte

	known xatomic.Uint64 // a lower bound: all ranks have finished all collectives up to it
	woke  atomic.Bool    // the rank's last collective has woken a sleeping caller
	wakes atomic.Uint32  // collectives that have woken a caller, since found was last steady
	found atomic.Uint32  // polls in a row that were successful

	pins   xatomic.Int32 // goroutines that use mapped memory, which stays mapped meanwhile
	closed xatomic.Bool  // no goroutine may pin mapped memory any more

	next  uint64     // guarded by hist.Mu: the number of the rank's last collective
	floor uint64     // guarded by hist.Mu: the rank has finished all collectives up to this number
	queue []queuedOp // guarded by hist.Mu: operations that wait for a cell, oldest first
	_     [56]byte
}

// entry is the part of a cell that only the rank's process sees: all that is needed to end the
// operation. A caller that ends its operation itself needs no entry.
type entry struct {
	coll.Call
	filled bool
	order  atomic.Uint32 // see release
	req    Request       // nil: a caller
	waiter *waiter       // of a sleeping caller; set before the cell says asleep
	// Of large collectives on the heap: the buffers' memory, or a packed copy of strided buffers.
	inMem     []byte
	outMem    []byte
	packedIn  *mem.Block
	packedOut *mem.Block
}

// waiter is a sleeping caller.
type waiter struct {
	ch  signal // capacity 1
	err error  // written before the token that ends the sleep

	// What the caller polls for before it sleeps, see makeWaiter.
	st    *Segment
	call  coll.Call
	rank  int
	seq   uint64
	ready func() bool
}

// queuedOp is an operation that waits for a cell, or for its turn after one that does.
type queuedOp struct {
	d        coll.Call
	req      Request // nil: see Note
	messages bool    // see Turn
}

// Staging guards the staging buffer of one rank, which one caller holds at a time. The
// communicators of the rank share it.
type Staging struct {
	mu      xatomic.VisibleMutex
	held    bool // guarded by mu
	retired bool // guarded by mu: a rank has given up, and others may read the buffer for ever
	// Guarded by mu: where the buffer was used last. Ranks of that communicator may read it until
	// they are over with collective seq.
	last *Member
	seq  uint64

	// The step that the caller that holds the buffer waits for. That caller writes it.
	want    xatomic.Uint64
	failure error // why that caller gives up
}

// stagingBuffer is memory of a rank through which the ranks combine large payloads.
type stagingBuffer struct {
	in     []byte // input that other ranks combine
	result []byte // what this rank has combined
}

// view is what all ranks have published of one collective. The cell of the viewer is active or
// taken.
type view struct {
	st  *Segment
	seq uint64
}

// Part returns the payload that a rank has published.
func (v view) Part(r int) []byte { return v.st.cell(r, v.seq).data[:] }
