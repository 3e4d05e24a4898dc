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
	// by rank: ranks of this process, which are called directly; nil for others
	peers   []*proc
	counter *count.Counter // counts messages; nil: no counting

	hist   *history       // of collectives
	member *smcoll.Member // shared-memory collectives; nil: all are made of messages
	// guarded by hist.Mu: numbers the collectives that may be made of messages
	collSeq uint64

	// lineage are the contexts of this communicator and of those that it was made of by Dup and
	// Split: revoking one of these revokes it. nil: its own only.
	lineage []uint64

	agreeSeq atomic.Uint32            // agreements started
	acked    atomic.Int32             // lost members that AckFailed has covered
	failed   atomic.Pointer[failures] // the lost members, computed from one failure state

	// set by DescribeBy; constant once anything is received; nil: operations describe themselves
	describeRecv func(src, tag int) string
}

// history is what a rank knows of the collectives of a communicator. Each collective writes a part
// of it, coll.History, which has cache lines of its own.
type history struct {
	coll.History
	c        *Comm        // constant
	notBegun atomic.Int32 // collectives that this rank is committed to and has not begun: see Later
}

// world is a run: what its ranks share.
type world struct {
	// Constant after construction.
	ctx          context.Context
	cancel       context.CancelCauseFunc
	size         int // ranks
	calls        *callback.Set
	own          []*proc // the ranks of this process, which are consecutive
	multiProcess bool    // there are ranks of other processes
	cfg          Config
	survive      bool    // cfg.Survive
	local        []*proc // by rank: the ranks that the fabric lets us call directly

	// shareMemory reports whether all pairs of some ranks share memory: those of group or, if group
	// is nil, the first n of the run. All ranks get the same answer. nil: no ranks do.
	shareMemory func(group []int32, n int) bool

	// collectives go through memory where they can; false if messages are counted; constant
	memoryColls bool
	segments    smcoll.Segments

	// aborted is nil while the run lives; the first cause that is stored decides the run's outcome.
	// It is stored under endMu, which is held from the check to the store, because the launcher is
	// told of the cause in between.
	aborted atomic.Pointer[abortError]
	endMu   sync.Mutex
	// closed when all pending operations have been completed with the cause, which may be done by
	// another goroutine than those of the ranks
	killed chan struct{}
	// set before any rank of this process has a failure state
	anyFailure atomic.Bool
	deaths     deaths
	hasFailed  *atomic.Bool // boot's Job.Failed; nil: it is not needed
	// tells the launcher whose failure ends this process, or may; nil: no launcher
	blame func(cause error, certain bool)

	ends     ends // see AtEnd
	party    *waits.Party
	detector *deadlock.Detector // nil: no deadlock detection
	// asks the launcher to end the job because of a deadlock; nil: no launcher
	reportDeadlock func(text string) error
	stale          staleChecker
}

// deaths are the ranks of this process that have died, where others survive that.
type deaths struct {
	mu  sync.Mutex
	all []*RankError // guarded by mu: in their order, each rank once
}

// ends counts the functions of AtEnd that are to be called or are running. It is no WaitGroup: a
// goroutine that outlives its rank may still add some.
type ends struct {
	mu    sync.Mutex
	count int           // guarded by mu
	none  chan struct{} // guarded by mu: closed when count is zero; nil if no goroutine waits
}

// proc is one rank of the run as a receiver: it owns the matcher into which other ranks deliver.
type proc struct {
	// Padding to the next cache line: Go puts one word before an object of this size. That line has
	// all fields that both a sender and a receiver write for a message.
	_  [cacheLine - 8]byte
	mu sync.Mutex
	m  match.Matcher // guarded by mu

	// written under mu; nil: no failure. Once it has dead, nothing is posted or filed
	failure atomic.Pointer[failureState]

	// Constant after construction.
	world  *world
	rank   int // in the run
	ep     fabric.Endpoint
	engine *progress.Engine // polls what comes to ep
	calls  *callback.Set    // runs the callbacks of its requests
	counts *count.Rank      // nil: nothing is counted
	ev     *event.Shared    // nil: nothing is recorded

	// own is the operation of a blocking receive, for ranks that have one of these at a time. It is
	// taken, under mu, when freed equals taken. It avoids the pool: one atomic operation instead of
	// four.
	own *reusedRecv

	direct directReceiver
	slab   atomic.Pointer[recvSlab] // the next receive for a request comes from here
	probe  match.Probe

	remote     remote
	traffic    traffic
	agreements consensus.Set
	mapped     mappedComms
	comms      coll.Known[Comm]
	answers    atomic.Pointer[coll.Answers]
	made       atomic.Uint64 // communicators made

	goroutine atomic.Uint64 // runs the rank's function; 0: not yet
	ended     atomic.Bool   // the function has returned
	returned  atomic.Bool   // so has all that the rank does after the function

	unexplained []unexplained // guarded by mu
}

// traffic counts the frames of a rank whose peers are in other processes.
type traffic struct {
	sent, received atomic.Int64
	pushes         atomic.Int64 // under way
}

// frame sends a frame to another process, and counts it: from the counts all ranks together know
// whether a frame is under way.
func (p *proc) frame(dst int, f fabric.Frame) error {
	p.traffic.sent.Add(1) // before Send: the frame may be taken, counted there and answered at once
	err := p.ep.Send(dst, f)
	if err != nil {
		p.traffic.sent.Add(-1)
	}
	return err
}

// push does the same for payloads, which are under way until done is called.
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

// waiterKind tells what waits for an operation.
type waiterKind uint8

const (
	aRequest    waiterKind = iota // the holder of the Request
	blockedCall                   // one goroutine, on self.Ch; the operation is pooled
	// the schedule of a collective, by self.Func; the operation is pooled
	aSchedule
)

// recvCall is the call that made a receive or a probe.
type recvCall uint8

const (
	callIrecv recvCall = iota
	callRecv
	callSendrecv
	callProbe
)

// recvOp is a receive or a probe. The program may keep those of requests for as long as it likes,
// so each is new memory, and small. The fields that another rank reads to deliver a message come
// first, in as few cache lines as possible.
type recvOp struct {
	Request // a reusedRecv uses its result only
	c       *Comm
	buf     mem.Buffer
	expect  uint64 // collectives: the aux that the message must carry
	waiter  waiterKind
	call    recvCall
	// the caller is in Sendrecv and still sends: it does not wait for this yet
	sendingFirst atomic.Bool
	entry        match.Posted // guarded by proc.mu while it is queued
}

// reusedRecv is a receive that this package uses again: waiter is not aRequest.
type reusedRecv struct {
	recvOp
	self node
	job  *mem.Cocopy // the copy to help with; set before the blocked caller is woken

	owned bool // constant: the rank's proc.own
	// of own: how often it was taken; written under proc.mu by the goroutine that takes it
	taken uint32
	freed atomic.Uint32 // of own: the value of taken when it was last freed
}

// recvSlab is a block of receives for requests. They are not used again: the program may hold them
// for as long as it likes.
type recvSlab struct {
	taken atomic.Uint32
	ops   [slabSize]recvOp
}

// slabSize is how many receives are allocated together. A program that keeps one of them keeps all
// from the collector, but not their buffers.
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
	remote int         // rank in the run of a receiver in another process; set before the RTS
	job    *mem.Cocopy // as in recvOp
}

// blockedSide is the side of a message whose goroutine is blocked and can help to copy.
type blockedSide uint8

const (
	neither blockedSide = iota
	sender
	receiver
)

// message is an unexpected message: its header with a copy of its payload (eager), or with the send
// that waits, or with that send's number in another process (rendezvous).
type message struct {
	h      wire.Header
	small  [smallLen]byte // eager: the payload, if it fits
	data   *mem.Block     // eager: the payload, if it does not fit; or nil
	from   *sendOp        // rendezvous
	remote int            // rendezvous from another process: rank in the run, plus 1
	id     uint64         // and the number of the send there
	entry  match.Arrival  // guarded by proc.mu while it is queued
}

// smallLen is the largest payload that fits into a message itself (guess): a cache line.
const smallLen = 64

// remote is the part of a rank's protocol for ranks of other processes, whose memory is out of
// reach: each side knows an operation of the other side by a number. README.md, "Ranks of other
// processes", has the protocol.
type remote struct {
	mu        sync.Mutex
	dead      error                // as failureState.dead
	last      uint64               // the last number given
	sends     map[uint64]*sendOp   // RTS sent, no CTS yet
	transfers map[uint64]*transfer // CTS sent, no payload yet

	awaiting     []func(error) // operations that wait for the cause: see proc.awaitCause
	causeAwaited bool          // the timer of awaitCause runs

	// sends that were withdrawn after their RTS, with the receivers' ranks: a CTS may still come
	withdrawn map[uint64]int
}

// transfer is a receive whose payload is under way.
type transfer struct {
	op  *recvOp
	src int        // rank of the sender in the run
	blk *mem.Block // the payload goes here first if the receive's memory is not one piece; or nil

	why error // guarded by remote.mu: why it was given up, whatever error the fabric ends it with
}

// mappedComms are the communicators of a rank that make collectives in mapped memory.
type mappedComms struct {
	indices *smcoll.Indices
	staging *smcoll.Staging

	mu  sync.Mutex
	all map[uint64]*smcoll.Member // guarded by mu: by context
}

// directReceiver receives messages of blocking calls without the matcher, from a rank of another
// process on this node: the waiting goroutine polls, and takes its message from the ring itself.
// The receive is not posted, and no goroutine is woken. README.md, "Direct receive", says why no
// message is missed or overtaken.
type directReceiver struct {
	// Constant after construction.
	p *proc
	// by rank of the run: true if all that comes from there is delivered by the goroutine that
	// polls; nil: no such rank
	polled   []bool
	finished func() bool // the message is here, or the receive must be posted

	// Owned by the goroutine that polls.
	active   bool // a goroutine receives directly
	op       recvOp
	ctx      uint64
	srcTag   uint64 // source and tag, as in a frame's head
	received bool   // the message is here
	// a message has come that must not be taken here, so later ones must not be either
	mustPost bool
}

const cacheLine = 64

// failureState is all that one rank knows to have gone wrong. It is immutable, and replaced under
// proc.mu. world.anyFailure is set before the first one: while it is not, operations check nothing
// else. README.md, "Failure", has the argument.
type failureState struct {
	dead    error               // why this rank has ended: it does nothing any more
	lost    map[int]error       // by rank in the run: why it is lost
	order   []int               // the lost ranks, in the order in which this one learned of them
	revoked map[uint64]struct{} // contexts of messages

	disagrees map[uint64]*disagreement // by context of messages: why collectives are lost
}

// failures are the lost members of one communicator, computed from a failure state.
type failures struct {
	of    *failureState
	ranks []int // as this rank learned of them: later lists begin with earlier ones
}

// disagreement ends the collectives of a communicator: two ranks are in different collectives where
// they should be in the same.
type disagreement struct {
	err    error
	number uint64
	a, b   int // ranks, the lower one first
	sa, sb coll.Signature

	// from is the number of the first agreement that no rank must wait for any more; 0: none, since
	// all ranks may still come to theirs.
	from uint64

	reported atomic.Bool // the program has got it as an error at this rank
}

// unexplained is a collective that has seen that a rank does not agree, and waits to be told what
// that rank called.
type unexplained struct {
	c    *Comm
	err  error // the error if no explanation comes
	then func(error)
}

// staleChecker looks now and then for collectives by messages and for agreements that have waited
// for long, and has the ranks that they wait for compare histories. Otherwise two ranks that wait
// for each other in different collectives would not hear of each other.
type staleChecker struct {
	w *world // constant; nil before start

	checkMu sync.Mutex // held during a check, with its questions
	// guarded by checkMu: what has waited at the last check: see waiting
	waited map[*proc]map[waiting]uint64

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: no check is scheduled
	over  bool        // guarded by mu: the run is over
}

// waiting is a receive of a collective; or a message that no receive has matched, whose sender may
// wait with it; or an agreement that another rank has not joined.
//
// In staleChecker.waited it maps to a number: how many collectives this rank had begun when it
// asked the other rank, plus one; 0 if it has not asked. A rank that has begun another collective
// since then asks once more, because a rank that was ahead has compared only what was begun by
// then, and does not compare again by itself.
type waiting struct {
	match.Key
	what waitKind
}

type waitKind uint8

const (
	waitMessage waitKind = iota
	waitReceive
	waitAgreement
)
