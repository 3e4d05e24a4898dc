// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"fmt"
	"sync"
	"sync/atomic"

	"weft/comm"
	"weft/internal/event"
	"weft/internal/xatomic"
)

// Win is one rank's side of a window. Any goroutine may call any method at any time, except that
// collective calls (Fence, Ifence, SetInfo, Free) must be made in the same order on all ranks.
type Win struct {
	// constant after construction
	c         *comm.Comm // the window's own: its fences disturb nobody
	b         Backing
	regions   []Region
	onFlush   func(error)
	onBarrier func(error)
	onClosed  func(error)
	unwatch   func() bool // ends the watch for the run's end
	// each rank is in a process of its own: the port's fence is all that is needed
	apart  bool
	ev     *event.Shared // nil: it is not recorded
	number uint32        // in a recording, at all ranks

	state     xatomic.Uint64 // see epoch.go
	abandoned xatomic.Bool   // the run ended before Free
	ops       xatomic.Uint32 // operations that were recorded

	mu    xatomic.VisibleMutex
	phase phase     // guarded by mu
	queue []entry   // guarded by mu; operations and fences that wait for the fence at hand
	opErr error     // guarded by mu; of queued operations, for the next fence
	info  comm.Info // guarded by mu
	asked uint64    // guarded by mu; fences called

	// over is how many fences are complete. It changes under mu while the window is busy and no
	// direct operation is under way; who is such an operation, or has mu, may read it.
	over uint64

	// Of the fence at hand: owned by whoever runs it; phase changes hands under mu.
	fence   entry
	syncErr error
}

// phase says who moves the queue on. It is guarded by mu.
type phase uint8

const (
	idle       phase = iota // the queue is empty
	moving                  // some goroutine is in move; it goes on until it reaches another phase
	waitingOps              // the fence at hand waits for the last direct operation to leave
	syncing                 // the fence at hand waits for its flush, barrier and close
)

// entry is an operation or a fence in the queue, in the order of the calls.
type entry struct {
	kind opKind
	// an operation
	buf       comm.Buffer
	rank, off int
	op        comm.Op
	number    uint32 // in a recording
	// a fence
	seen     *comm.Request // nil: it is not recorded
	complete func(error)
	final    bool // the fence of Free: not an epoch, and nothing follows
}

// port is one rank's way to the ranks of other processes, for one window of process memory.
// README.md, "Ranks of other processes", has the protocol.
type port struct {
	// Constant after construction.
	c      *comm.Comm  // its own: nothing but this protocol travels in it
	mem    []byte      // this rank's region
	lock   *sync.Mutex // of accumulates on it
	lanes  []*lane     // by rank; nil for the ranks of this process
	remote int         // how many there are
	teller *teller     // says what c's receives are for

	mu     sync.Mutex
	epoch  uint64      // guarded by mu: fences completed here
	open   int         // guarded by mu: transfers from or to memory of this rank that are under way
	marks  int         // guarded by mu: lanes that are marked or lost
	gone   int         // guarded by mu: lanes that are gone
	done   func(error) // guarded by mu: of the fence at hand, nil if there is none
	frees  bool        // guarded by mu: the next fence is that of Free
	moving bool        // guarded by mu: somebody is in settle
	closed bool        // guarded by mu
	err    error       // guarded by mu: the first; the window is lost with it
}

// lane is the way to one rank of another process, and from it.
//
// Sending: operations are packed into the open bundle in the order of the calls; what does not fit
// while as much as allowed is under way waits in the backlog. A full bundle, and one that somebody
// waits for, goes to outbox, and whoever finds nobody busy with that sends it.
type lane struct {
	// Constant after construction.
	p    *port
	rank int

	mu      sync.Mutex
	filling *bundle // guarded by mu; nil if there is nothing in it
	// guarded by mu; while there is something in it, make refuses, and filling is nil
	backlog []parcel
	outbox  []parcel // guarded by mu; sealed
	busy    bool     // guarded by mu: somebody is in ship
	under   int      // guarded by mu: parcels with comm that are not over
	ahead   int      // guarded by mu: bundles of this epoch that may still go without a rendezvous
	epoch   uint64   // guarded by mu: of what is packed now
	seq     uint64   // guarded by mu: bundles sealed
	tags    uint32   // guarded by mu: given last
	gets    int      // guarded by mu: asked for and not answered

	// Receiving: owned by whoever handles the message at hand.
	in    *bundle
	inSeq uint64

	// Receiving: guarded by p.mu.
	req *comm.Request // the standing receive
	// the rank has called the fence of this epoch, and nothing of this epoch follows
	marked bool
	fence  uint8 // and which: of fences
	held   bool  // the message at hand is of the next epoch
	lost   bool

	// gone: the rank does not take part in this window any more, though it lives. It is set when no
	// operation is under way.
	gone atomic.Bool
}

// Region is what one target rank owns of a window.
type Region struct {
	Size int // bytes
	Unit int // bytes per displacement
}

// Backing is where a window's memory lives. Each rank of the window has a Backing of its own, all
// of which reach the same memory.
//
// The window has checked rank, offset and length before it calls; offsets are in bytes. Put, Get
// and Accumulate are called concurrently and do not block. The buffer stays the operation's until
// the Flush after it is done; when the memory at the target changes before that is the backing's
// affair.
type Backing interface {
	// Regions lists the regions by target rank. There may be more or fewer than ranks in the
	// communicator. Constant.
	Regions() []Region

	Put(rank, off int, src comm.Buffer) error
	Get(rank, off int, dst comm.Buffer) error
	// Accumulate is atomic per element with respect to every other Accumulate on the same memory.
	Accumulate(rank, off int, src comm.Buffer, op comm.Op) error

	// Flush is called once per fence, when all operations of this rank's epoch have returned and
	// before the barrier. It calls done, at once or later, from any goroutine, when their effects
	// are where other ranks find them after the barrier.
	Flush(done func(error))
	// Closed is called once per fence after the barrier: every rank's operations of the epoch are
	// in place. The fence is complete at this rank when done is called.
	Closed(done func(error))

	// Free is called once; no operation or fence of this rank is under way or will come.
	Free() error
}

// memory is the backing of process memory. What is in this address space is one copy, and complete
// when it returns; the rest goes through the port, and is complete with the fence.
type memory struct {
	g       *group
	regions []Region
	p       *port // nil if all ranks are in this process
}

// teller is what the communicator of a port knows of the port, and so of the window's memory. The
// run keeps communicators, and requests that are over, for longer than a window lives.
type teller struct {
	of atomic.Pointer[port] // nil: it is closed
}

// describe says what a receive of the port's waits for: "" for a standing one, unless a fence waits
// for the rank.
func (t *teller) describe(src, tag int) string {
	p := t.of.Load()
	switch {
	case p == nil:
		return ""
	case tag == bundleTag:
		p.mu.Lock()
		defer p.mu.Unlock()
		if l := p.lanes[src]; p.done == nil || l.marked || l.lost {
			return ""
		}
		return fmt.Sprintf("rank %d in %s number %d", src, fences[p.fenceKind()], p.epoch+1)
	case tag&1 == 1:
		return fmt.Sprintf("rank %d to answer a get", src)
	}
	return fmt.Sprintf("rank %d to send what it puts", src)
}

// fenceOf is a window as the operation of a fence's request.
type fenceOf Win

func (f *fenceOf) String() string {
	c := f.c
	return fmt.Sprintf("fence of a window, at rank %d of %d", c.Rank(), c.Size())
}

func (w *Win) wrap(op string, peer int, err error) error {
	return &Error{Op: op, Rank: w.c.Rank(), Peer: peer, Err: err}
}

type opKind uint8

const (
	kindPut opKind = iota
	kindGet
	kindAccumulate
	kindFence
)

func (k opKind) String() string { return [...]string{"put", "get", "accumulate", "fence"}[k] }

// fences are what marks say in a record's operator.
var fences = [...]string{"fence", "free window"}

func (p *port) fenceKind() uint8 {
	if p.frees {
		return 1
	}
	return 0
}
