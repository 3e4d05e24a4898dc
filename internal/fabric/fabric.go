// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// HeadWords is the number of words in the head of a frame.
const HeadWords = 6

// Frame is the unit of delivery.
type Frame struct {
	// Origin and Target are the ranks that the frame travels between. Send sets them. A rank on the
	// way passes the frame on by Relay.
	Origin, Target int32
	// Head is opaque to the fabric.
	Head [HeadWords]uint64
	// Data is the payload. The receiver copies what it keeps.
	Data []byte
}

// Between returns ErrRank if the frame does not go from one of size ranks to another.
func (f *Frame) Between(size int) error {
	if uint(f.Origin) >= uint(size) || uint(f.Target) >= uint(size) {
		return fmt.Errorf("%w: a frame from rank %d to rank %d of %d", ErrRank, f.Origin, f.Target, size)
	}
	return nil
}

// Caps are the properties of a fabric: flags and limits, no behaviour.
type Caps struct {
	// Kind names the fabric ("inproc", "shm", "tcp", ...), as shown in histograms.
	Kind string
	// EagerLimit is the payload in bytes up to which the fabric advises to send data with the first
	// frame, before a receive is known to be posted.
	EagerLimit int
	// MaxFrame is the largest payload of one frame in bytes; 0 means unlimited.
	MaxFrame int
	// SharedMemory: peers share memory with this rank. If they are in another address space,
	// Endpoint.Shared returns their memory, and only the goroutine that polls delivers their
	// frames.
	SharedMemory bool
}

// Errors of all fabrics.
var (
	ErrClosed      = errors.New("fabric: endpoint is closed")
	ErrUnsupported = errors.New("fabric: not supported by this fabric")
	ErrRank        = errors.New("fabric: no such rank")
)

// Handler takes the frames that arrive at one rank.
type Handler interface {
	// Deliver takes one frame. Origin and target are ranks of the job. If the target is another
	// rank than this one, Deliver relays or refuses the frame. Deliver must not block and must not
	// keep f or f.Data. It returns true if the polling goroutine's wait is satisfied: the goroutine
	// can then stop polling.
	Deliver(f *Frame) (met bool)
	// Lost reports that no frame from rank src will arrive any more, nor any frame at rank src, and
	// why. Lost must not block.
	Lost(src int, err error)
}

// Endpoint is one rank's end of a fabric.
type Endpoint interface {
	Rank() int
	// Size is the number of ranks of the job, as far as this rank knows.
	Size() int
	// Grow makes the ranks below size peers: they have joined the job. It is called before any of
	// them sends to this rank. It returns ErrRank if size is less than the present number of ranks,
	// or more than the fabric has room for, and ErrUnsupported if ranks cannot join.
	Grow(size int) error
	// Caps returns the properties of the connection to a peer.
	Caps(peer int) Caps
	// Sources returns the sources that a goroutine can poll so that frames are delivered sooner;
	// none if the fabric delivers without polling. Sources is called before Bind, and returns the
	// same each time.
	Sources() []Source
	// Bind sets the handler of arriving frames, and the engine that polls the sources. It is called
	// once, before the first frame is sent to this rank.
	Bind(h Handler, p Progress)
	// Local returns the handler of a peer in the same address space, nil for other peers. A call of
	// the handler's methods has the same effect as a frame to the peer, and keeps the order. A
	// layer that recognises its own handler at the other end need not pack and unpack. Local may be
	// called only after all ranks have called Bind.
	Local(peer int) Handler
	// Shared returns the memory that a rank shares with all ranks to which this fabric connects it.
	// The rank may be the caller's own. The memory begins at a cache line, has the same size at all
	// ranks, is zero at first, and remains mapped until this endpoint is closed. The fabric does
	// not use the memory itself. Without Caps.SharedMemory, Shared returns ErrUnsupported.
	Shared(rank int) ([]byte, error)
	// Send moves one frame to rank dst, its target; its origin is this rank.
	Send(dst int, f Frame) error
	// Relay passes a frame on to rank hop, which is the target or relays the frame in turn. Relay
	// changes neither origin nor target.
	Relay(hop int, f Frame) error
	// Expect sets the memory for the bytes of a transfer from rank src: the peer sends len(dst)
	// bytes, at least one, by Push with the same key. Expect is called before the peer can know the
	// key. A key is used once.
	Expect(src int, key uint64, dst []byte, done func(error))
	// Forget takes an expectation back. If Forget returns true, done will not be called, and the
	// fabric does not write to dst from now on, whatever bytes still arrive. If false, done was
	// called or will be called soon.
	Forget(src int, key uint64) bool
	// Push sends data to the memory that rank dst expects to be filled under key. data must not
	// change until done is called.
	Push(dst int, key uint64, data []byte, done func(error))
	// Drop ends the communication with a peer: nothing is sent to the peer and nothing is taken
	// from it any more. Frames queued for the peer are dropped, transfers with the peer end with
	// err, and resources kept for the peer are freed. Drop may call Handler.Lost. Drop does nothing
	// if the peer is lost already, if the endpoint is closed, or if the peers share one address
	// space: those end together.
	Drop(peer int, err error)
	// Close ends this rank's part.
	Close() error
}

// Source is something that an engine (package progress) polls for a fabric's frames. Polling only
// lowers the latency: if no goroutine polls, the source's doorbell wakes a goroutine of the fabric,
// the doorbell goroutine, which has the frames delivered.
//
// The turn is the right to poll the sources of a rank. One goroutine at a time has it. Only the
// goroutine that has the turn calls the methods of a source, except Costs and Work.
//
// A source is armed if its next arrival rings its doorbell, by Progress.Ring:
//
//	armed     ── an arrival, or RingDoorbell: calls Ring once ──► not armed
//	armed     ── Arm(false), or Poll finds something ───────────► not armed
//	not armed ── Arm(true) ─────────────────────────────────────► armed
type Source interface {
	// Costs are constant.
	Costs() Costs
	// Poll delivers the frames that are there, and reports whether there were any. If so, and if
	// that is cheap, Poll disarms the source first, as early as possible: the sender may be about
	// to ring. Poll never waits. A patient poll may check several times if it finds nothing.
	Poll(patient bool) bool
	// Arm(true) arms the source: the next arrival calls Progress.Ring, once. Arm(false) disarms the
	// source: no goroutine needs to be woken, since one polls. why is the reason for which the turn
	// ends. The source is armed at first, and is not armed any more after Ring. Arm may be called
	// with the present state.
	Arm(on bool, why Leaving) Armed
	// RingDoorbell has Progress.Ring called, for a frame that is there and that the caller may not
	// deliver.
	RingDoorbell()
	// Serve does the work for which Progress.Call was called.
	Serve()
	// Midway reports whether a transfer is in progress: pieces are still to be received or sent, so
	// something will arrive soon.
	Midway() bool
	// Waits reports whether there is work for Work, which any goroutine may call without the turn.
	Waits() bool
	Work()
}

// Costs say what is costly about a source.
type Costs struct {
	Poll    bool // Poll makes a system call, or calls a library
	Arm     bool // Arm makes a system call, so it is worth deferring
	Readers bool // the source is not polled: goroutines read, and must get the processor
}

// Leaving is the reason for which a goroutine stops polling.
type Leaving uint8

const (
	LeavingInVain Leaving = iota // it has found nothing
	LeavingFound                 // it has found what it polled for
	// it has found something, and a goroutine probably polls again within some tens of microseconds
	LeavingForSoon
)

// Armed is the result of Arm.
type Armed uint8

const (
	ArmedFully Armed = iota
	// not armed yet, since a goroutine probably polls soon; after LeavingForSoon only. If none
	// does, Poll is called in a millisecond
	ArmDeferred
	SomethingHere // armed; but a frame is there that may not ring
)

// Progress is what a fabric needs of the engine that polls its sources. A fabric calls the methods
// for its own sources.
type Progress interface {
	// Ring reports that the doorbell of an armed source has rung: something has arrived, or
	// RingDoorbell was called. The fabric's doorbell goroutine calls Ring, and may be the goroutine
	// that delivers the arrival.
	Ring(s Source)
	// Call has Serve called by the goroutine that has the turn; if none has it, by the caller.
	Call()
	// Retire ends the polling of a source. After Retire has returned true, no goroutine calls the
	// source's methods, now or later. false: after limit, a goroutine still polls the source.
	Retire(s Source, limit time.Duration) bool
}

// NoSource is a source from which nothing arrives. Other sources embed it for methods that they do
// not need.
type NoSource struct{}

func (NoSource) Costs() Costs            { return Costs{} }
func (NoSource) Poll(bool) bool          { return false }
func (NoSource) Arm(bool, Leaving) Armed { return ArmedFully }
func (NoSource) RingDoorbell()           {}
func (NoSource) Serve()                  {}
func (NoSource) Midway() bool            { return false }
func (NoSource) Waits() bool             { return false }
func (NoSource) Work()                   {}

var frames = sync.Pool{New: func() any { return new(Frame) }}

// Deliver delivers a copy of f, so that f need not be on the heap. Fabrics use Deliver that deliver
// on the sender's goroutine.
func Deliver(h Handler, f *Frame) {
	own := frames.Get().(*Frame)
	*own = *f
	h.Deliver(own)
	own.Data = nil
	frames.Put(own)
}

// Last returns a function that must be called n times. The last of these calls calls done, with the
// first error.
func Last(n int, done func(error)) func(error) {
	if n == 1 {
		return done
	}
	h := &Holders{Done: done}
	h.Add(n)
	return h.Release
}

// Holders counts the holders of something. The last Release calls Done, with the first error.
type Holders struct {
	Done   func(error)
	left   atomic.Int64
	failed atomic.Pointer[error]
}

// Add counts n more holders. After the first call, only a holder may call Add.
func (h *Holders) Add(n int) { h.left.Add(int64(n)) }

// Release ends one holder's use, with an error or nil.
func (h *Holders) Release(err error) {
	if err != nil {
		h.failed.CompareAndSwap(nil, &err)
	}
	if h.left.Add(-1) > 0 {
		return
	}
	if e := h.failed.Load(); e != nil {
		err = *e
	}
	h.Done(err)
}
