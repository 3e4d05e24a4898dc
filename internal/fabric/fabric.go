// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"sync/atomic"
)

// HeadWords is the number of words in the head of a frame.
const HeadWords = 6

// Frame is the unit of delivery.
type Frame struct {
	// Head is opaque to the fabric.
	Head [HeadWords]uint64
	// Data is the payload. The receiver copies what it keeps.
	Data []byte
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
	// Ordered: see the invariants in the package comment.
	Ordered bool
	// OneSided: memory of a peer can be read and written without its help.
	OneSided bool
	// SharedMemory: peers are on this node and can map the same memory.
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
	// Deliver takes one frame from rank src. It must not block and must not keep f.Data.
	Deliver(src int, f Frame)
	// Lost says that nothing will come from rank src any more, nor arrive there, and why. It must not block.
	Lost(src int, err error)
}

// Endpoint is one rank's end of a fabric.
type Endpoint interface {
	Rank() int
	Size() int
	// Caps returns the properties of the connection to a peer.
	Caps(peer int) Caps
	// Bind sets the handler of arriving frames. It is called once, before the first frame is sent to
	// this rank.
	Bind(h Handler)
	// Local returns the handler of a peer in the same address space, nil for others. To call its methods is as good
	// as sending it a frame, and keeps the order; it exists so that a layer that recognises its own handler at
	// the other end need not pack and unpack. Only after all ranks have called Bind.
	Local(peer int) Handler
	// Send moves one frame to rank dst.
	Send(dst int, f Frame) error
	// Expect says where the bytes of a transfer from rank src are to be put: the peer sends len(dst) bytes, at least one, by Push
	// with the same key. It is called before the peer can know the key, and a key is used once.
	Expect(src int, key uint64, dst []byte, done func(error))
	// Forget takes an expectation back. If it returns true, done will not be called and dst is left alone from now on, whatever still
	// comes; if false, done was called or will be soon.
	Forget(src int, key uint64) bool
	// Push sends data to the memory that rank dst expects to be filled under key. data must not change until done is called.
	Push(dst int, key uint64, data []byte, done func(error))
	// Close ends this rank's part.
	Close() error
}

// Sharer is an endpoint that has memory in common with some peers.
type Sharer interface {
	// Shared returns the memory that a rank shares with all whom this fabric connects it with; its own, too. It begins at a cache line, has the same size
	// at all ranks, is zero at first, and is there until this endpoint is closed. The fabric does not use it.
	Shared(rank int) ([]byte, error)
	// Watch delivers what comes, as Look, until ready returns true, or for a short time only. It calls ready often.
	Watch(ready func() bool)
}

// Looker is an endpoint whose frames come sooner if a goroutine that waits for one looks for it itself. Nothing depends on it.
type Looker interface {
	// Enter says that the caller will look soon, so that nobody needs to be woken for what comes meanwhile. It reports whether the caller is now
	// the one who looks; if so, it calls Look with entered, or Leave.
	Enter() bool
	// Leave takes that back.
	Leave()
	// Look delivers what comes until there is something in woken, or for a short time only.
	Look(woken <-chan struct{}, entered bool)
	// Poll delivers what is there and reports whether it was anything. Where another goroutine looks, it leaves that to the
	// other. tries is how many calls of Poll in a row, this one included, find nothing if this one does. A caller that polls
	// in a loop, for want of anything else to do, counts them: then Poll gives the processor to other processes now and
	// then, and may count on the caller to come back soon. 0: the caller does not say, and sees to that itself.
	Poll(tries int) bool
}

// Picker takes frames before the handler has them.
type Picker interface {
	// Pick takes a frame, as Handler.Deliver does, or returns false and leaves it to the handler. It runs on the goroutine that looks, while that does.
	Pick(src int, f *Frame) bool
	// Enough reports whether what is looked for will not come this way. It is called often.
	Enough() bool
}

// Seeker is a Looker that can look for one frame, which whoever waits for it then takes itself.
type Seeker interface {
	// Seek delivers what comes until p has picked a frame, and reports whether it has. It gives up when p has enough, when something is to be done that
	// Look does, or, tired, after a short time. The caller has entered, and still looks when Seek returns: it calls Look with entered, or Leave.
	Seek(p Picker) (picked, tired bool)
}

// Beside is a Looker that looks for others as well, so that who waits for messages of several fabrics can look at all of them. Nothing depends on it.
type Beside interface {
	// Beside has poll, which is Poll of another endpoint, called now and then in Look. It is called before Bind.
	Beside(poll func() bool)
}

// Dropper is an endpoint that need not find out by itself that a rank is lost.
type Dropper interface {
	// Drop says that a peer takes nothing any more, and that nothing of it will be taken: what is queued for it is dropped, transfers with it end
	// with err, and what was kept for it is let go. Handler.Lost may be called. It does nothing if the peer is lost already, or the endpoint is
	// closed.
	Drop(peer int, err error)
}

// Last returns a function that is to be called n times, and calls done the last time, with the first error.
func Last(n int, done func(error)) func(error) {
	if n == 1 {
		return done
	}
	var (
		left   atomic.Int64
		failed atomic.Pointer[error]
	)
	left.Store(int64(n))
	return func(err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
		if left.Add(-1) > 0 {
			return
		}
		if e := failed.Load(); e != nil {
			done(*e)
			return
		}
		done(nil)
	}
}
