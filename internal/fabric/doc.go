// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package fabric defines the interface between message passing (package comm) and the fabrics,
// which move frames between ranks.
//
// A fabric knows ranks, frames and bytes. It knows no tags, no communicators and no order of
// matching: the words of a frame's head belong to the layer that uses the fabric. An [Endpoint] is
// one rank's access to a fabric. Its [Caps] are data, read once at set-up. What Caps does not
// advertise is refused with [ErrUnsupported].
//
//	eps, _ := inproc.New(4)
//	eps[1].Bind(handler, engine)               // before the first frame; package progress has engines
//	eps[0].Send(1, fabric.Frame{Data: bytes})  // handler.Deliver(frame), of origin 0
//
// # States
//
// Of an endpoint:
//
//	made ──Bind──► bound ──Close──► closed
//
// Of a peer, as an endpoint sees it:
//
//	missing ──Grow──► present ──Drop, or its end or connection is found broken──► lost
//
// Of a transfer at its receiver:
//
//	            ┌── Forget returns true ────────► forgotten: done is not called
//	──Expect──► expected ── all bytes are here ─► done(nil)
//	            └── the peer is lost, or Close ─► done(error)
//
// # Invariants
//
//   - Frames of one sending goroutine to one destination are delivered in the order of its calls of
//     Send. (comm's non-overtaking rule depends on this order.)
//   - Any goroutine may call Send, also from within Deliver.
//   - Several goroutines may call Deliver at once. Deliver must not block. A frame from a [Source]
//     is delivered by the goroutine that polls the source. A fabric whose ranks share an address
//     space calls Deliver on the sender's goroutine.
//   - Frame.Data belongs to the sender again when Send returns; the receiver may use the bytes
//     until Deliver returns. Memory given to Push and Expect belongs to the fabric until done is
//     called.
//   - Neither Send nor Push waits for the receiver. Send queues a copy of what it cannot write at
//     once.
//   - A transfer (Expect, Push) has no order relative to frames. done is called exactly once at
//     each end, perhaps before the call returns. Its error is not nil if the bytes did not arrive,
//     or may not have arrived. The two ends may disagree when a peer is lost.
//   - Bytes that are not expected, or not any more, are dropped. If bytes do not fit the
//     expectation, the peer is lost.
//   - A job grows and loses ranks while it runs: Grow makes new ranks peers, Drop ends one. A rank
//     number is never reused.
//   - A frame has an origin and a target. A rank between the two receives the frame from the rank
//     before it, and relays the frame. A transfer goes between two ranks that one fabric connects.
//   - A peer that ends without having closed its endpoint is reported once, by Handler.Lost, after
//     its last frame.
//   - Close writes the queued frames, as far as the peers take them in bounded time, and tells the
//     peers that no more will follow. After Close, Send returns [ErrClosed]. Frames that are under
//     way already may still be delivered.
package fabric
