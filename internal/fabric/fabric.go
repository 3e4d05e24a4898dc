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
	// Origin and Target are the ranks that it travels between. Send sets them. A rank on the way
	// passes the frame on by Relay.
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
	// Endpoint.Shared returns memory of theirs, and their frames are delivered by the goroutine
	// that polls, and nobody else.
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
	// Deliver takes one frame. Its origin and target are ranks that there are; if the target is
	// another one, it is to be relayed or refused. Deliver must not block and must not keep f or
	// f.Data. It returns true if what the goroutine that polls waits for has come, so that it need
	// not look for more.
	Deliver(f *Frame) (met bool)
	// Lost says that nothing will come from rank src any more, nor arrive there, and why. It must
	// not block.
	Lost(src int, err error)
}

// Endpoint is one rank's end of a fabric.
type Endpoint interface {
	Rank() int
	// Size is the number of ranks of the job, as far as this rank knows.
	Size() int
	// Grow makes the ranks up to size peers: they have joined the job. It is called before any of
	// them sends to this rank. It returns ErrRank for fewer ranks than there are, or more than
	// there is room for, and ErrUnsupported where ranks cannot join.
	Grow(size int) error
	// Caps returns the properties of the connection to a peer.
	Caps(peer int) Caps
	// Sources are what has to be polled for frames to come soon: none where they come by
	// themselves. It is called before Bind, and returns the same each time.
	Sources() []Source
	// Bind sets the handler of arriving frames, and the engine that polls the sources. It is called
	// once, before the first frame is sent to this rank.
	Bind(h Handler, p Progress)
	// Local returns the handler of a peer in the same address space, nil for others. To call its
	// methods is as good as sending it a frame, and keeps the order; it exists so that a layer that
	// recognises its own handler at the other end need not pack and unpack. Only after all ranks
	// have called Bind.
	Local(peer int) Handler
	// Shared returns the memory that a rank shares with all whom this fabric connects it with; its
	// own, too. It begins at a cache line, has the same size at all ranks, is zero at first, and is
	// there until this endpoint is closed. The fabric does not use it. Without Caps.SharedMemory:
	// ErrUnsupported.
	Shared(rank int) ([]byte, error)
	// Send moves one frame to rank dst, its target; its origin is this rank.
	Send(dst int, f Frame) error
	// Relay passes a frame on to rank hop, which may be its target, or is to relay it in turn.
	// Origin and target stay.
	Relay(hop int, f Frame) error
	// Expect says where the bytes of a transfer from rank src are to be put: the peer sends
	// len(dst) bytes, at least one, by Push with the same key. It is called before the peer can
	// know the key, and a key is used once.
	Expect(src int, key uint64, dst []byte, done func(error))
	// Forget takes an expectation back. If it returns true, done will not be called and dst is left
	// alone from now on, whatever still comes; if false, done was called or will be soon.
	Forget(src int, key uint64) bool
	// Push sends data to the memory that rank dst expects to be filled under key. data must not
	// change until done is called.
	Push(dst int, key uint64, data []byte, done func(error))
	// Drop says that a peer takes nothing any more, and that nothing of it will be taken: what is
	// queued for it is dropped, transfers with it end with err, and what was kept for it is let go.
	// Handler.Lost may be called. It does nothing if the peer is lost already, or the endpoint is
	// closed; nor where peers are in one address space, which end together.
	Drop(peer int, err error)
	// Close ends this rank's part.
	Close() error
}

// Source is what an engine (package progress) needs of a fabric whose frames come sooner if a
// goroutine that waits for one looks for it itself, and of which a goroutine of its own sees to it
// that they come at all. All methods but Costs and Work are called by who has the turn, one
// goroutine at a time.
type Source interface {
	// Costs are constant.
	Costs() Costs
	// Poll delivers what is there and reports whether it was anything. If so, and unless that is
	// dear, it disarms the source first: as soon as can be, since whoever has sent may be about to
	// ring. It never waits. patient: it may look some times if there is nothing.
	Poll(patient bool) bool
	// Arm has Progress.Ring called, once, by what comes from now on, or takes that back: nobody
	// needs to be woken for what comes now. why is why the turn ends. The source is armed at first,
	// and after Ring armed no more. What is so already may be said again.
	Arm(on bool, why Leaving) Armed
	// Knock has Ring called, for something that is here and that the caller may not deliver.
	RingDoorbell()
	// Serve does what Progress.Call was called for.
	Serve()
	// Midway reports whether pieces of a transfer are to come, or to go: something comes soon.
	Midway() bool
	// Waits reports whether there is something for Work to do, which is done without the turn, by
	// any goroutine.
	Waits() bool
	Work()
}

// Costs say what is dear of a source.
type Costs struct {
	Poll    bool // Poll is a call of the system, or of a library
	Arm     bool // Arm is a call of the system, so that it is worth to be put off
	Readers bool // it is not to be polled: goroutines read, which must get the processor
}

// Leaving is why somebody polls no more.
type Leaving uint8

const (
	LeavingInVain  Leaving = iota
	LeavingFound           // what was looked for has come
	LeavingForSoon         // and somebody is likely to poll again within some tens of microseconds
)

// Armed is what has become of Arm.
type Armed uint8

const (
	ArmedFully Armed = iota
	// not yet, since somebody is likely to poll soon; of LeavingForSoon only. If nobody does, Poll
	// is called in a millisecond
	ArmDeferred
	SomethingHere // it is armed; but something is here that may not ring
)

// Progress is what a fabric needs of whoever polls its sources. A fabric calls it for sources of
// its own.
type Progress interface {
	// Ring is the doorbell of a source that was armed: something has come, or Knock was called. A
	// goroutine of the fabric's own calls it, which may be the one to deliver that.
	Ring(s Source)
	// Call has Serve called, by who has the turn or else by the caller.
	Call()
	// Retire ends the polling of a source: when it has returned true, nobody calls its methods any
	// more, nor will. false: somebody does still, after limit.
	Retire(s Source, limit time.Duration) bool
}

// NoSource is a source from which nothing comes. Others have its methods where they have none.
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

// Deliver delivers a copy of f, so that f need not be of the heap. It is for fabrics whose frames
// come from the sender's goroutine.
func Deliver(h Handler, f *Frame) {
	own := frames.Get().(*Frame)
	*own = *f
	h.Deliver(own)
	own.Data = nil
	frames.Put(own)
}

// Last returns a function that is to be called n times, and calls done the last time, with the
// first error.
func Last(n int, done func(error)) func(error) {
	if n == 1 {
		return done
	}
	h := &Holders{Done: done}
	h.Add(n)
	return h.Release
}

// Holders are those who use something. The last to release it calls Done, with the first error.
type Holders struct {
	Done   func(error)
	left   atomic.Int64
	failed atomic.Pointer[error]
}

// Add counts n more of them. Behind the first call, it is for who is one.
func (h *Holders) Add(n int) { h.left.Add(int64(n)) }

// Release is the end of one of them.
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
