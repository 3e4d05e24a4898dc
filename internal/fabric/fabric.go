// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package fabric says what moves frames between ranks.
//
// A fabric knows ranks, frames and bytes. It knows no tags, no communicators and no order of
// matching: the words of a frame's head belong to whoever speaks over the fabric (package comm).
// An [Endpoint] is one rank's access to a fabric. Its [Caps] are data, read once at set-up; what is
// not advertised there is refused with [ErrUnsupported].
//
//	eps, _ := inproc.New(4)
//	eps[1].Bind(handler)                       // before the first frame
//	eps[0].Send(1, fabric.Frame{Data: bytes})  // handler.Deliver(0, frame)
//
// Invariants:
//   - A fabric with Caps.Ordered delivers the frames of one sending goroutine to one destination in
//     the order of the calls of Send. (comm's non-overtaking rule rests on this.)
//   - Send may be called by any goroutine, also from within Deliver.
//   - Deliver may be called by several goroutines at once, and must not block. A fabric whose
//     address space is shared calls it on the sender's goroutine.
//   - Frame.Data belongs to the sender again when Send returns; the receiver may use it until Deliver returns.
//     What is given to Post belongs to the fabric until done is called.
//   - Neither Send nor Post waits for the receiver: what cannot be written at once is queued, by Send as a copy.
//   - Frames of Send and Post keep one order. done is called exactly once for each Post, perhaps before Post
//     returns, with an error if the frame may not arrive.
//   - A peer that is gone without having closed its end is reported once, by Handler.Lost, after its last frame.
//   - Close writes what is queued, as far as the peers take it in bounded time, and tells them that no more will come.
//     After it, Send returns [ErrClosed]; frames already under way may still be delivered.
package fabric

import "errors"

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
	// Post is Send without a copy: f.Data must not change until done is called.
	Post(dst int, f Frame, done func(error))
	// Close ends this rank's part.
	Close() error
}
