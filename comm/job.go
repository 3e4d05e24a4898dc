// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weft/comm/internal/callback"
	"weft/comm/internal/coll"
	"weft/comm/internal/consensus"
	"weft/comm/internal/count"
	"weft/comm/internal/deadlock"
	"weft/comm/internal/match"
	"weft/comm/internal/mem"
	"weft/comm/internal/smcoll"
	"weft/comm/internal/wire"
	"weft/internal/event"
	"weft/internal/fabric"
	"weft/internal/progress"
	"weft/internal/waits"
)

// Comm is a group of ranks that exchange messages apart from all other communicators. Each rank has
// its own Comm value. Any goroutine may call any method; collectives of one communicator must be
// called in the same order on all its ranks. A Comm needs no freeing.
type Comm struct {
	// Constant after construction.
	world *world
	proc  *proc
	rank  int
	group []int32 // rank here → rank in the run; nil: the same
	size  int
	ctx   uint64 // context of messages, even; collectives have ctx+1
	eager uint64 // eager limit in bytes
	// the ranks that are in this process, to be called directly; nil for others
	peers   []*proc
	counter *count.Counter // counts messages; nil: nobody does

	hist *history       // of its collectives
	seat *smcoll.Member // where all ranks meet for collectives; nil: nowhere
	// guarded by hist.Mu: collectives that may be of messages, for their numbers
	collSeq uint64

	// line are the contexts of this communicator and of those that it was made of by Dup and Split:
	// who revokes one of these revokes it. nil: its own only.
	line []uint64

	voteSeq atomic.Uint32            // agreements started
	acked   atomic.Int32             // lost members that AckFailed has covered
	failed  atomic.Pointer[failures] // the lost members, as of some trouble

	// of DescribeBy; constant once anything is received; nil: operations say what they are
	told func(src, tag int) string
}

// history is what a rank knows of the collectives of a communicator. Where it is written with each
// collective, as coll.History is, it is in cache lines of its own.
type history struct {
	coll.History
	c     *Comm        // constant
	later atomic.Int32 // collectives that this rank has taken on and not begun: see Later
}

// world is a run: what its ranks share.
type world struct {
	// Constant after construction.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	size    int // ranks
	calls   *callback.Set
	own     []*proc // the ranks of this process, which are consecutive
	apart   bool    // there are ranks of other processes
	cfg     Config
	survive bool    // cfg.Survive
	local   []*proc // by rank: what the fabric lets us call directly

	// together reports whether some ranks of the run, nil: the first n, are pairwise connected by
	// memory that they share. All ranks come to the same answer. nil: none are.
	together func(group []int32, n int) bool

	// collectives go from memory to memory where they can; not if messages are counted; constant
	direct bool
	stages smcoll.Segments

	// aborted is nil while the run lives; the first to set it decides the run's outcome. It is set
	// under endMu, which is held from the look at it until it is set: whose failure that is, the
	// launcher is told in between.
	aborted atomic.Pointer[abortError]
	endMu   sync.Mutex
	// closed when all that was pending has been completed with it, which another goroutine than
	// those of the ranks may do
	killed chan struct{}
	// troubled is set before any rank of this process has a trouble.
	troubled  atomic.Bool
	deaths    deaths
	hasFailed *atomic.Bool // see meeting; nil: nobody asks
	// tells the launcher whose failure ends this process, or may; nil: nobody to tell
	blame func(cause error, certain bool)

	ends   ends // see AtEnd
	party  *waits.Party
	stalls *deadlock.Detector // nil: nobody looks for deadlocks
	// has the launcher end the job because of a deadlock; nil: there is none
	stuck func(text string) error
	late  stale
}

// deaths are the ranks of this process that have died, where others survive that.
type deaths struct {
	mu  sync.Mutex
	all []*RankError // guarded by mu: in their order, each rank once
}

// ends counts the functions of AtEnd that are to be called or are under way. It is no WaitGroup: a
// goroutine that outlives its rank may still add some.
type ends struct {
	mu    sync.Mutex
	count int           // guarded by mu
	none  chan struct{} // guarded by mu: closed when count is zero; nil if nobody waits
}

// proc is one rank of the run as a receiver: it owns the matcher into which other ranks deliver.
type proc struct {
	// Here a cache line begins, since Go puts a word before what is not small. It has all that a
	// sender and a receiver alone write of it for a message.
	_  [cacheLine - 8]byte
	mu sync.Mutex
	m  match.Matcher // guarded by mu

	// written under mu; nil: nothing has gone wrong. Once it has dead, nothing is posted or filed
	trouble atomic.Pointer[trouble]

	// Constant after construction.
	world  *world
	rank   int // in the run
	ep     fabric.Endpoint
	engine *progress.Engine // polls what comes to ep
	calls  *callback.Set    // runs the callbacks of its requests
	counts *count.Rank      // nil: nothing is counted
	ev     *event.Shared    // nil: nothing is recorded

	// own is the operation of a blocking receive, for ranks that have one of these at a time. It is
	// taken, under mu, when freed equals taken. It spares them the pool: one atomic operation
	// instead of four.
	own *reusedRecv

	seeker seeker
	slab   atomic.Pointer[recvSlab] // where the next receive for a request comes from
	probe  match.Probe

	far     far
	traffic traffic
	ballots consensus.Set
	near    near
	comms   coll.Known[Comm]
	answers atomic.Pointer[coll.Answers]
	made    atomic.Uint64 // communicators

	goroutine atomic.Uint64 // that runs the rank's function; 0: not yet
	ended     atomic.Bool   // the function is over
	returned  atomic.Bool   // so is all that the rank does after the function

	unexplained []unexplained // guarded by mu
}

// traffic are the frames of a rank whose peers are other processes.
type traffic struct {
	sent, here atomic.Int64
	pushes     atomic.Int64 // under way
}

// frame sends a frame to another process, and counts it, so that all ranks together know whether
// any is under way.
func (p *proc) frame(dst int, f fabric.Frame) error {
	p.traffic.sent.Add(1) // before: it may be taken, counted there and answered at once
	err := p.ep.Send(dst, f)
	if err != nil {
		p.traffic.sent.Add(-1)
	}
	return err
}

// push is likewise for payloads, which are under way until done is called.
func (p *proc) push(dst int, key uint64, data []byte, done func(error)) {
	p.traffic.pushes.Add(1)
	p.ep.Push(dst, key, data, func(err error) {
		p.traffic.pushes.Add(-1)
		done(err)
	})
}

func allRanks(n int) []int {
	all := make([]int, n)
	for r := range all {
		all[r] = r
	}
	return all
}

// waiterKind is who waits for an operation.
type waiterKind uint8

const (
	aRequest    waiterKind = iota // whoever holds the Request
	blockedCall                   // one goroutine, on self.Ch; the operation is pooled
	aSchedule                     // a collective's, by self.Func; the operation is pooled
)

// recvCall is the call that a receive or a probe is of.
type recvCall uint8

const (
	callIrecv recvCall = iota
	callRecv
	callSendrecv
	callProbe
)

// recvOp is a receive or a probe. Those of requests are the program's for as long as it likes, so
// each is new memory, and small; and what another rank reads of it to deliver a message comes
// first, in as few cache lines as can be.
type recvOp struct {
	Request // of a reusedRecv, only the result
	c       *Comm
	buf     mem.Buffer
	expect  uint64 // collectives: the aux that the message must carry
	waiter  waiterKind
	call    recvCall
	away    atomic.Bool  // the caller does something else first: it is in Sendrecv
	entry   match.Posted // guarded by proc.mu while it is queued
}

// reusedRecv is a receive of ours, which is used again: waiter is not aRequest.
type reusedRecv struct {
	recvOp
	self node
	job  *mem.Cocopy // the copy to help with; set before the blocked caller is woken

	owned bool          // constant: this is its rank's own
	taken uint32        // of own: how often it was taken; written under proc.mu by who takes it
	freed atomic.Uint32 // of own: taken, when it was freed last
}

// recvSlab is receives for requests, which cannot be used again: the program may hold them for as
// long as it likes.
type recvSlab struct {
	taken atomic.Uint32
	ops   [slabSize]recvOp
}

// slabSize is how many receives are allocated together. Whoever keeps one of them keeps all from
// the collector, but not their buffers.
const slabSize = 9

// sendOp is a send whose memory is used after the call that started it.
type sendOp struct {
	Request
	self   node
	waiter waiterKind
	c      *Comm
	buf    mem.Buffer
	dst    int
	tag    int
	op     string
	far    int         // rank in the run of a receiver in another process
	job    *mem.Cocopy // as in recvOp
}

// blockedSide is the side of a message whose goroutine is blocked and can help.
type blockedSide uint8

const (
	neither blockedSide = iota
	sender
	receiver
)

// message is an unexpected message: its header and a copy of its payload, or the send that waits
// with it, or that send's number.
type message struct {
	h     wire.Header
	small [smallLen]byte // eager: the payload, if it fits
	data  *mem.Block     // eager: the payload, if it does not fit; or nil
	from  *sendOp        // ready
	far   int            // ready, of another process: rank in the run, plus 1
	id    uint64         // and its number there
	entry match.Arrival  // guarded by proc.mu while it is queued
}

// smallLen is how many bytes a message has in itself (guess): a cache line.
const smallLen = 64

// far is the part of a rank's protocol that deals with ranks of other processes, whose memory is
// out of reach: what the two sides know of one another's operations are numbers. README.md, "Ranks
// of other processes", has the protocol.
type far struct {
	mu    sync.Mutex
	dead  error                // as proc.dead
	last  uint64               // number given last
	sends map[uint64]*sendOp   // announced, not asked for yet
	pulls map[uint64]*transfer // asked for, not here yet

	stranded []func(error) // see proc.stranded
	waits    bool          // somebody was stranded

	withdrawn map[uint64]int // announced to these ranks and taken back, without their knowing
}

// transfer is a receive whose payload is under way.
type transfer struct {
	op  *recvOp
	src int        // sender's rank in the run
	blk *mem.Block // where the payload goes first if the receive's memory is not one piece, or nil

	why error // guarded by far.mu: it was given up with this, whatever the fabric ends it with
}

// near are the communicators of a rank whose ranks meet in mapped memory.
type near struct {
	indices *smcoll.Indices
	windows *smcoll.Staging

	mu  sync.Mutex
	all map[uint64]*smcoll.Member // guarded by mu: by context
}

// seeker is the short way of a blocking receive from a rank of another process that shares memory
// with this one: who waits looks for the message in the ring and takes it from there, without
// posting the receive, so without the matcher and without being woken. README.md, "The short way",
// says why no message is missed or overtaken.
type seeker struct {
	// Constant after construction.
	p *proc
	// by rank of the run: all that comes from there is delivered by who polls; nil: from nowhere
	near []bool
	met  func() bool // the message is here, or the receive has to be posted

	// Owned by who polls.
	on     bool // somebody seeks
	op     recvOp
	ctx    uint64
	from   uint64 // source and tag, as in a frame's head
	picked bool   // the message is here
	// the message has come, and is not one that can be taken here; so those behind it must not be
	torn bool
}

const cacheLine = 64

// trouble is what one rank knows to have gone wrong. It is immutable, and replaced under proc.mu;
// world.troubled is set before the first one, and is all that an operation looks at while there is
// none. README.md, "Failure", has the argument.
type trouble struct {
	dead    error               // nothing goes on at this rank
	lost    map[int]error       // by rank in the run, of those that are known not to live
	order   []int               // the lost ranks, as this one learned of them
	revoked map[uint64]struct{} // contexts of messages

	disagrees map[uint64]*disagreement // by context of messages: the collectives are lost
}

// failures is what a trouble means for one communicator.
type failures struct {
	of    *trouble
	ranks []int // the lost members, as this rank learned of them: a prefix stays as it is
}

// disagreement is the end of a communicator's collectives: two ranks are in different ones where
// they should be in the same.
type disagreement struct {
	err    error
	number uint64
	a, b   int // ranks, the lower one first
	sa, sb coll.Signature

	// from is the number of the first agreement that no rank is to wait for any more; 0: none,
	// since the ranks may all come to theirs.
	from uint64

	heard atomic.Bool // the program has been told at this rank
}

// unexplained is a collective that has seen that a rank does not agree, and waits to hear on what.
type unexplained struct {
	c    *Comm
	err  error // if nobody says
	then func(error)
}

// stale looks, now and then, for collectives by messages and for agreements that wait for long, and
// has each rank that is waited for compare. Two ranks that wait for each other in different
// collectives would not hear of each other otherwise.
type stale struct {
	w *world // constant since begin, before which it is nil

	looks sync.Mutex // held by a look, with its questions
	// guarded by looks: what has waited at the last look: see waiting
	waits map[*proc]map[waiting]uint64

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: no look is to come
	over  bool        // guarded by mu: the run is over
}

// waiting is a receive of a collective, a message that no receive has asked for, whose sender may
// wait with it, or an agreement that a rank has not come to. With it goes how many collectives this
// rank had begun when the other one was asked, and one more; 0 if it was not. A rank that has begun
// another one since asks once more: the other rank has compared with what was begun then, and does
// not come back to it where it was ahead.
type waiting struct {
	match.Key
	what waitKind
}

type waitKind uint8

const (
	waitMessage waitKind = iota
	waitReceive
	waitVote
)
