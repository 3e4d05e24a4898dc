// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package tcp is the fabric between processes that have a network in common. Each pair of ranks has
// at most one connection, which is made when the first of them sends; both sides prove that they
// know the secret of the job.
//
//	e, err := tcp.New(tcp.Config{Rank: 0, Size: 2, Secret: secret, Lookup: lookup}) // e.Addr() is for the others' lookup
//	e.Bind(handler, engine) // a progress.Engine of e.Sources()
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
// Whoever has a frame first dials. If both do at once, the connection that the lower rank has
// dialled stays: the one who is dialled by a higher rank while it dials itself answers "duplicate",
// and the higher rank waits for the connection that is coming. So frames never go over two
// connections, and their order is that of Send. A rank that closes therefore listens until it is
// done with all peers. One that has closed, or has lost the other, ends the connection without a
// verdict: "duplicate" would have the other wait for what does not come.
//
// # Writing
//
// The sender writes on its own goroutine as long as the socket takes it at once (one system call
// for head and data). What is left over goes on the peer's queue, in front, and all further frames
// behind it, until the goroutine that polls finds that the socket takes more. So Send and Push
// never wait for the receiver, and Deliver may call them. One goroutine at a time writes
// (peer.writing); who finds somebody writing queues, and who ends writing looks at the queue once
// more, under the same lock; so nothing is left in it that nobody will write.
//
// A socket that takes no more for good (mute) is shut, but not lost before what has come is read:
// the peer may have said goodbye, and ended the connection while this side was writing.
//
// # Transfers
//
// A transfer (Push) is written from the sender's memory in pieces of at most 256 KiB, or 1 MiB
// within the machine, and read straight into the memory of Expect, but for what came along with its
// head. Frames go before pieces, and transfers to one peer take turns; so behind a transfer, of
// whatever size, nobody waits for more than a piece and what the kernel has taken. The sender's
// memory is used until the last piece is written or dropped, whichever the writer and a loss agree
// on: each holds the transfer, and who lets go last calls done.
//
// Who forgets a transfer while a piece of it is half here says so under peer.mu, and has the
// goroutine that polls let go of the memory; the rest of the piece is then dropped. Without that, a
// peer that was stopped in the middle of a piece would keep the memory, and with it the receive, of
// a run that has ended.
//
// # Polling
//
// On Linux an endpoint has no goroutine for each connection. Its sockets are in a set of epoll of
// their own (inner), unknown to Go's poller, and are one source of the rank's engine (package
// progress): one goroutine at a time polls them, reads, and writes what is queued. If nobody polls,
// a goroutine of the endpoint waits, in Go's poller, for a second set (outer), which has only inner
// in it and is one-shot; to arm the source is to arm that set. Sockets that spoke last are read
// without asking inner (talkers), and if ranks take turns rapidly, these are taken out of inner
// until the source is armed (apart): a message then costs one system call to write it and one to
// read it. README.md has the steps and the bad schedule that each prevents.
//
// Connections under TLS, and all of them on other systems, have a reader and a writer goroutine
// each, and Go's poller wakes them.
//
// # Connections within the machine
//
// They are neither paced nor congested, and have buffers for a large message, where the machine
// lets programs have such (socket_linux.go). They are what the address says: both ends have the
// same, or both are of the loopback interface.
//
// # Invariants
//
//   - The turn to poll comes before peer.mu. peer.mu is not held while something blocks, and no
//     lock but the turn while the handler is called.
//   - A socket's read side belongs to the goroutine that polls, its write side to the one that has
//     set peer.writing. It is closed when neither can be: Close retires the source, and the last
//     writer closes what it finds dead.
//   - One goroutine at a time writes to a connection: who holds peer.writing.
//   - Each posted frame's done is called once: by the write that completes it, or when the peer is
//     lost or closed.
//   - Every length from the wire is checked before memory is taken for it.
//   - The handler hears of a peer's loss at most once, after its last frame, and not at all if it
//     has closed.
//
// # What bounds the wait for a dead peer
//
// A process that ends has its connections ended by its kernel, which is noticed at once. A machine
// or a link that vanishes is noticed by keep-alive probes, and by the time limit of unacknowledged
// data where the kernel has one: within Config.DeadAfter (package vigil has the arithmetic): with
// its default of 8 s, at 6.4 s if something was written, else at 7 s. What else a job takes to end
// is Linger, and what package launch has. Close does not wait for a peer that has been silent for
// long where it should have answered. A peer with which there is no connection is not watched here.
package tcp
