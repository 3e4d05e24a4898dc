// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package tcp is the fabric between processes that have a network in common. Each pair of ranks has at most one
// connection, which is made when the first of them sends; both sides prove that they know the secret of the job.
//
//	e, err := tcp.New(tcp.Config{Rank: 0, Size: 2, Secret: secret, Lookup: lookup}) // e.Addr() is for the others' lookup
//	e.Bind(handler)
//	e.Send(1, frame)
//
// The states of a peer:
//
//	idle ──first Send, or a connection comes──► connecting ──proved──► open ──closing frames──► closed
//	                                                └── error, end of file without a closing frame ──► lost
//
// Frames are queued while it is connecting.
//
// # Who dials
//
// Whoever has a frame first dials. If both do at once, the connection that the lower rank has dialled stays: the one who is
// dialled by a higher rank while it dials itself answers "duplicate", and the higher rank waits for the connection that is coming. So
// frames never go over two connections, and their order is that of Send.
//
// # Writing
//
// The sender writes on its own goroutine as long as the socket takes it at once (one system call for head and
// data). What is left over goes on the peer's queue, and the peer's writer goroutine, which may block, writes it; until it has, all
// further frames are queued behind. So Send and Push never wait for the receiver, and Deliver may call them.
//
// # Transfers
//
// A transfer (Push) is written from the sender's memory in pieces of at most MaxFrame bytes, and read by the receiver's reader straight
// into the memory of Expect, but for what came along with its head. Frames go before pieces, and transfers to one peer take turns; so behind a transfer, of whatever size, nobody waits for more
// than a piece and what the kernel has taken. The sender's memory is used until the last piece is written or dropped, whichever the writer and
// a loss agree on: each holds the transfer, and who lets go last calls done.
//
// Who forgets a transfer while a piece of it is being read sets the connection's read deadline, under peer.mu and only while the reader
// says that it is at that piece; the reader then takes the deadline back, lets go of the memory, and drops the rest of the piece.
// Without that, a peer that was stopped in the middle of a piece would keep the memory, and with it the receive, of a run that has ended.
//
// # Invariants
//
//   - peer.mu is the only lock; it is not held while something blocks, nor while the handler is called.
//   - One goroutine at a time writes to a connection: who holds peer.writing.
//   - Each posted frame's done is called once: by the write that completes it, or when the peer is lost or closed.
//   - Every length from the wire is checked before memory is taken for it.
//   - The handler hears of a peer's loss at most once, after its last frame, and not at all if it has closed.
//
// # What bounds the wait for a dead peer
//
// A process that ends has its connections ended by its kernel, which is noticed at once. A machine or a link that vanishes is noticed by
// keep-alive probes, and by the time limit of unacknowledged data where the kernel has one: after about
// DeadAfter. A peer with which there is no connection is not watched here.
package tcp
