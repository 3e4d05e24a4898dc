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
	c         *comm.Comm // the window's own, so that its barriers match no other collective
	b         Backing
	regions   []Region
	onFlush   func(error)
	onBarrier func(error)
	onClosed  func(error)
	stopAtEnd func() bool // keeps the end of the run from calling abandon
	// Each rank is in its own process. The marks that the endpoints exchange are the barrier.
	separate bool
	ev       *event.Shared // trace events; nil if the run is not recorded
	number   uint32        // of the window in a recording; the same at all ranks

	state     xatomic.Uint64 // see epoch.go
	abandoned xatomic.Bool   // the run ended before Free
	ops       xatomic.Uint32 // operations recorded

	mu     xatomic.VisibleMutex
	phase  phase     // guarded by mu
	queue  []entry   // guarded by mu; operations and fences that wait for the current fence
	opErr  error     // guarded by mu; errors of queued operations, for the next fence to return
	info   comm.Info // guarded by mu
	called uint64    // guarded by mu; fences called

	// completed counts complete fences. It changes under mu, while the window is busy and no direct
	// operation is in progress. A direct operation and a holder of mu may read it.
	completed uint64

	// The current fence. Both fields belong to the goroutine that runs the fence; they change hands
	// with phase, under mu.
	fence   entry
	syncErr error
}

// phase says what happens next to the queue. It is guarded by mu.
type phase uint8

const (
	idle       phase = iota // the queue is empty
	moving                  // one goroutine is in move; it stays there until it sets another phase
	waitingOps              // the current fence waits for the last direct operation to leave
	syncing                 // the current fence waits for its flush, barrier or close
)

// entry is an operation or a fence in the queue, in the order of the calls.
type entry struct {
	kind opKind
	// an operation
	buf       comm.Buffer
	rank, off int
	op        comm.Op
	number    uint32 // of the operation in a recording
	// a fence
	recorded *comm.Request // the fence's request; nil if the run is not recorded
	complete func(error)
	final    bool // the fence of Free: it is not counted as an epoch, and nothing follows it
}

// endpoint connects one rank to the ranks of other processes, for one window of process memory.
// README.md, "Ranks of other processes", has the protocol.
type endpoint struct {
	// Constant after construction.
	c         *comm.Comm  // the endpoint's own: it carries this protocol alone
	mem       []byte      // this rank's region
	lock      *sync.Mutex // held by each accumulate on mem
	channels  []*channel  // by rank; nil for the ranks of this process
	remote    int         // how many channels there are
	describer *describer  // describes the receives of c

	mu       sync.Mutex
	epoch    uint64      // guarded by mu: fences completed here
	pending  int         // guarded by mu: transfers from or to memory of this rank in progress
	marks    int         // guarded by mu: channels that are marked or lost
	detached int         // guarded by mu: channels that are detached
	done     func(error) // guarded by mu: completes the current fence; nil if there is none
	freeing  bool        // guarded by mu: the next fence is that of Free
	settling bool        // guarded by mu: one goroutine is in settle
	closed   bool        // guarded by mu
	err      error       // guarded by mu: the first error; each fence returns it from then on
}

// channel carries packets to one rank of another process, and from it.
//
// Sending: add packs operations into the open packet (filling) in the order of the calls. If the
// limit of messages in flight is reached, an operation that does not fit waits in the backlog. A
// packet moves to the outbox when it is full, or when a rank waits for it. The goroutine that finds
// busy false sends the outbox.
type channel struct {
	// Constant after construction.
	ep   *endpoint
	rank int

	mu      sync.Mutex
	filling *packet // guarded by mu; nil if no operation is packed
	// Guarded by mu. While the backlog has entries, reserve returns false and filling is nil.
	backlog  []outgoing
	outbox   []outgoing // guarded by mu; sealed packets, and payloads of direct puts
	busy     bool       // guarded by mu: one goroutine is in ship
	inFlight int        // guarded by mu: messages that comm has and has not completed
	// guarded by mu: packets of this epoch that may still go without a rendezvous
	eagerLeft int
	epoch     uint64 // guarded by mu: of the operations that are packed now
	seq       uint64 // guarded by mu: packets sealed
	lastTag   uint32 // guarded by mu: counts the tags that were used
	gets      int    // guarded by mu: gets that are packed and not answered

	// Receiving: owned by the goroutine that handles the current message.
	in    *packet
	inSeq uint64

	// Receiving: guarded by ep.mu.
	req *comm.Request // the standing receive
	// The rank has called the fence of this epoch. It sends nothing more for this epoch.
	marked bool
	fence  uint8 // which fence the mark says: an index of fenceNames
	held   bool  // the current message belongs to the next epoch
	lost   bool

	// detached: the rank lives, but does not take part in this window any more. It is set while no
	// operation is in progress.
	detached atomic.Bool
}

// Region is what one target rank owns of a window.
type Region struct {
	Size int // bytes
	Unit int // bytes per displacement
}

// Backing is where a window's memory lives. Each rank of the window has its own Backing, all of
// which reach the same memory.
//
// The window checks rank, offset and length before it calls; offsets are in bytes. Put, Get and
// Accumulate are called concurrently and do not block. The operation owns the buffer until the next
// Flush is done. The backing decides when, until then, the memory at the target changes.
type Backing interface {
	// Regions lists the regions by target rank. There may be more or fewer than ranks in the
	// communicator. Constant.
	Regions() []Region

	Put(rank, off int, src comm.Buffer) error
	Get(rank, off int, dst comm.Buffer) error
	// Accumulate is atomic per element with respect to every other Accumulate on the same memory.
	Accumulate(rank, off int, src comm.Buffer, op comm.Op) error

	// Flush is called once per fence, after all operations of this rank's epoch have returned and
	// before the barrier. It calls done, at once or later, from any goroutine, when other ranks
	// can find the effects of those operations after the barrier.
	Flush(done func(error))
	// Closed is called once per fence, except that of Free, after the barrier has succeeded: every
	// rank's operations of the epoch are done. The fence is complete at this rank when done is
	// called.
	Closed(done func(error))

	// Free is called once, when no operation or fence of this rank is in progress and none follows.
	Free() error
}

// memory is the backing of process memory. An operation on a region of this process is one copy,
// complete when it returns. Other operations go through the endpoint, and are complete with the
// fence.
type memory struct {
	shared  *shared
	regions []Region
	ep      *endpoint // nil if all ranks are in this process
}

// describer is the only reference from the endpoint's communicator to the endpoint, and so to the
// window's memory. A run keeps communicators and completed requests for longer than a window lives.
type describer struct {
	ep atomic.Pointer[endpoint] // nil after close
}

// describe says what a receive of the endpoint waits for. A standing receive is described only
// while a fence waits for the rank; otherwise describe returns "".
func (d *describer) describe(src, tag int) string {
	ep := d.ep.Load()
	switch {
	case ep == nil:
		return ""
	case tag == packetTag:
		ep.mu.Lock()
		defer ep.mu.Unlock()
		if ch := ep.channels[src]; ep.done == nil || ch.marked || ch.lost {
			return ""
		}
		return fmt.Sprintf("rank %d in %s number %d", src, fenceNames[ep.fenceKind()], ep.epoch+1)
	case tag&1 == 1:
		return fmt.Sprintf("rank %d to answer a get", src)
	}
	return fmt.Sprintf("rank %d to send the data of a put", src)
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

// fenceNames are the two kinds of fence. A mark has an index of it as its operator.
var fenceNames = [...]string{"fence", "free window"}

func (ep *endpoint) fenceKind() uint8 {
	if ep.freeing {
		return 1
	}
	return 0
}
