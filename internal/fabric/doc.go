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
//	eps[1].Bind(handler, engine)               // before the first frame; package progress has engines
//	eps[0].Send(1, fabric.Frame{Data: bytes})  // handler.Deliver(frame), of origin 0
//
// Invariants:
//   - Frames of one sending goroutine to one destination are delivered in the order of the calls of
//     Send. (comm's non-overtaking rule rests on this.)
//   - Send may be called by any goroutine, also from within Deliver.
//   - Deliver may be called by several goroutines at once, and must not block. What comes from a
//     source is delivered by the goroutine that polls. A fabric whose address space is shared calls
//     it on the sender's goroutine.
//   - Frame.Data belongs to the sender again when Send returns; the receiver may use it until
//     Deliver returns. What is given to Push and Expect belongs to the fabric until done is called.
//   - Neither Send nor Push waits for the receiver: what Send cannot write at once is queued, as a
//     copy.
//   - A transfer (Expect, Push) has no order towards frames. done is called exactly once at each
//     end, perhaps before the call returns, with an error if the bytes may not arrive, or did not.
//     The two ends may disagree when a peer is lost.
//   - Bytes that nobody expects (any more) are dropped. Bytes that do not fit what is expected make
//     the peer lost.
//   - A job grows and loses ranks while it runs: Grow makes new ranks peers, Drop ends one. A rank
//     is never another's.
//   - A frame has an origin and a target. A rank between the two is handed it by the one before,
//     and relays it. Transfers are between two ranks that a fabric connects.
//   - A peer that is gone without having closed its end is reported once, by Handler.Lost, after
//     its last frame.
//   - Close writes what is queued, as far as the peers take it in bounded time, and tells them that
//     no more will come. After it, Send returns [ErrClosed]; frames already under way may still be
//     delivered.
package fabric
