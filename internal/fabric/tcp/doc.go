// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package tcp is the fabric between processes that a network connects. Each pair of ranks has at
// most one connection, which is made when the first of the two sends. Both sides prove that they
// know the secret of the job.
//
//	// e.Addr() is for the others' lookup
//	e, err := tcp.New(tcp.Config{Rank: 0, Size: 2, Secret: secret, Lookup: lookup})
//	e.Bind(handler, engine) // a progress.Engine of e.Sources()
//	e.Send(1, frame)
//
// # The states of a peer
//
//	      the first Send, or             both have proved
//	      the peer connects              themselves               Close: closing frames
//	idle ───────────────────► connecting ───────────────► open ───────────────────────► closed
//	                               │                       │
//	                               └───────────────────────┴── an error, or an end without
//	                                                           a closing frame ─────► lost
//
// Frames are queued while a peer is connecting. Close leads to closed from idle and connecting,
// too, and Drop leads to lost from every state but closed. A peer whose connection ends after its
// closing frame is lost as well; but Handler.Lost is not called, and Send returns ErrClosed.
//
// Frames keep their order, for two reasons. Two ranks never use two connections. And at any time at
// most one goroutine writes to a connection (it has set peer.writing): the others put their frames
// on the peer's queue.
//
// No frame stays in the queue. A goroutine that queues does so under a lock, under which it sees
// whether another goroutine writes. That goroutine checks the queue under the same lock before it
// stops writing. If it stops because the socket is full, the poller writes the rest as soon as the
// socket takes it. README.md has the argument for the other direction: every arrival is read.
//
// # Which rank dials
//
// A rank that has a frame for an idle peer dials. If both ranks dial at once, the connection that
// the lower rank has dialled is used: the lower rank answers the other connection with "duplicate",
// and the higher rank waits for the lower rank's connection. For this reason, a rank that closes
// listens until it is done with all peers. A rank that has closed, or has lost the other rank, ends
// the connection without a verdict: after "duplicate", the other rank would wait for a connection
// that never comes.
//
// # Writing
//
// The sender writes on its own goroutine as long as the socket takes the bytes at once (one system
// call for head and data). The rest goes to the front of the peer's queue, and all further frames
// go behind it, until the goroutine that polls finds that the socket takes more. So Send and Push
// never wait for the receiver, and Deliver may call them.
//
// If a write fails (peer.writeErr), the socket is shut down. But the peer is not lost before the
// bytes that have arrived are read: the peer may have sent its closing frame, and ended the
// connection while this side was writing.
//
// # Transfers
//
// A transfer (Push) is written from the sender's memory in pieces of at most 256 KiB, or 1 MiB
// within the machine. The receiver reads each piece directly into the memory of Expect, except the
// bytes that it read together with the piece's head. Frames go before pieces, and transfers to one
// peer take turns. So a frame waits for at most one piece, and for the bytes that the kernel has
// taken, however large the transfers are. The sender's memory is used until the last piece is
// written or dropped. Both the writer and a loss may end that use: each holds the transfer, and the
// last to release it calls done.
//
// A goroutine that forgets a transfer while a piece of it is half read sets peer.interrupted, under
// peer.mu. The goroutine that polls then releases the memory, and the rest of the piece is dropped.
// Without that, a peer that was stopped in the middle of a piece would hold the memory, and with it
// the receive, of a run that has ended.
//
// # Polling
//
// On Linux an endpoint has no goroutine for each connection. Its sockets are in an epoll set of
// their own (inner), which Go's poller does not know, and are one source of the rank's engine
// (package progress). The goroutine that has the turn polls the sockets, reads, and writes the
// queues. If no goroutine polls, the endpoint's doorbell goroutine waits, in Go's poller, for a
// second set (outer). That set contains only inner and is one-shot; to arm the source is to arm
// outer. The sockets from which bytes came last are read without polling inner first (direct). If
// ranks take turns rapidly, the direct sockets are taken out of inner until the source is armed
// (detached): then a message costs one system call to write it and one to read it. README.md has
// the steps, and the bad schedule that each step prevents.
//
// Connections under TLS, and all connections on other systems, have a reader and a writer goroutine
// each, and Go's poller wakes them.
//
// # Connections within the machine
//
// They are neither paced nor congested, and have buffers for a large message if the machine allows
// such buffers (socket_linux.go). A connection is within the machine if both ends have the same
// address, or both are of the loopback interface.
//
// # Invariants
//
//   - Lock order: the turn, then peer.mu. peer.mu is not held while something blocks. No lock but
//     the turn is held while the handler is called.
//   - A socket's read side belongs to the goroutine that has the turn, its write side to the
//     goroutine that has set peer.writing. The socket is closed when neither can exist any more:
//     Close retires the source, and the last writer closes a dead socket.
//   - One goroutine at a time writes to a connection: the one that has set peer.writing.
//   - done of each item is called once: by the write that completes the item, or when the peer is
//     lost or closed.
//   - Every length from the wire is checked before memory is allocated for it.
//   - Handler.Lost is called at most once for a peer, after the peer's last frame, and not for a
//     peer that has closed.
//
// # What bounds the wait for a dead peer
//
// If a process ends, its kernel ends its connections, which is noticed at once. A machine or a link
// that vanishes is noticed by keep-alive probes, and by the time limit for unacknowledged data
// where the kernel has one: within Config.DeadAfter (package keepalive has the arithmetic). With
// the default of 8 s, that is after 6.4 s if something was written, otherwise after 7 s. Linger,
// and the times of package launch, are the rest of the time that a job takes to end. Close does not
// wait for a peer that should have answered long ago and has not. A peer without a connection is
// not watched here.
package tcp
