// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package comm passes messages between ranks: point to point, collectively, and in whatever layout
// the memory has.
//
//	err := comm.Run(ctx, comm.Config{Ranks: 4}, func(c *comm.Comm) error {
//		right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
//		row, halo, sum := make([]float64, 100), make([]float64, 100), make([]float64, 100)
//		r := c.Irecv(comm.Of(halo), left, 0)
//		if err := c.Send(comm.Of(row), right, 0); err != nil {
//			return err
//		}
//		if _, err := r.Wait(ctx); err != nil {
//			return err
//		}
//		return c.Allreduce(comm.Of(row), comm.Of(sum), comm.Sum)
//	})
//
// # Requests
//
// An operation that has been started is a [Request]. Its state is one atomic word:
//
//	pending (nil, or a list of waiters) ⇄ locked → done
//
// locked lasts a few instructions: a goroutine takes a waiter from the list, or writes the result.
// done is final. The goroutine that makes the last step of the operation completes the request,
// wakes the goroutines in Wait, and calls the callbacks of OnDone; see [Request] for where these
// run. No goroutine polls the state.
//
// # Messages
//
// Each rank has a matcher: its posted receives, and its unexpected messages, which came before
// their receives. A message is matched on the goroutine that came second. If that is the sender's,
// it copies straight from its memory to the receiver's. If it is the receiver's, the way depends on
// the message. The payload of a small message is in pooled memory by then, and its sender has gone
// on (eager). The payload of a large message, or of a synchronous send, is copied from the memory
// of the sender, which waits (rendezvous). Where the other side is blocked in its call, both
// goroutines share a large copy. The README beside the code has the protocol, its argument and its
// budget.
//
// # Invariants
//
//   - A request completes exactly once; each callback is called exactly once.
//   - No queue of a matcher holds both receives and messages: they would have matched.
//   - Messages of one goroutine to one rank match in the order of the sends, wildcards or not.
//   - The goroutine that removes an entry from a matcher, under its lock, owns the operation and
//     completes it: the match, the cancel or the abort, and no other.
//   - Collectives of a communicator are matched by their number; their messages have a context of
//     their own.
//   - Partial results are combined in an order that depends on the number of ranks and the root,
//     never on time.
//
// # Failure
//
// A rank that returns an error, or whose process dies, ends the run for all. With Config.Survive
// only the operations that need that rank fail, with ErrPeerLost; a program goes on with
// [Comm.Revoke], [Comm.Shrink] and [Comm.Agree]. No call waits for a rank that is lost.
//
// # Lock order
//
//	proc.mu            a rank's matcher; never two of them at once
//	consensus.Set's    a rank's agreements
//	trampoline.mu      a backlog of callbacks
//
// No goroutine holds one of these while it takes another, copies a payload, runs a callback or
// completes a request.
//
// # Concurrency and blocking
//
// Any goroutine may call anything, except that collectives of one communicator must be called in
// one order. Send, Ssend, Recv, Sendrecv, Probe, Wait, WaitAll, WaitAny and the collectives without
// an I block. They return when the run is aborted; Wait, WaitAll and WaitAny also return when their
// context ends, which ends the waiting and not the operation.
package comm
