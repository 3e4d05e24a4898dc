// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// eyes is how an endpoint reads its sockets without a goroutine for each.
type eyes struct {
	// Constant after construction.
	e     *Endpoint
	inner int // a set of epoll with all sockets
	outer int // another one, with inner in it, which speaks once when it is armed: the descriptor of bell
	bell  *os.File
	raw   syscall.RawConn

	full atomic.Int32 // sockets that are to take more when they can
	open atomic.Int32 // sockets in inner

	// Of the goroutine that polls.
	talkers  [2]*socket // read without asking the set: README.md
	unasked  int        // polls since the set was asked
	streak   int        // rapid polls in a row
	arrivals [32]unix.EpollEvent
}

// call has something done by the goroutine that polls, or else by the caller.
func (y *eyes) call() { y.e.progress.Call() }

// socket is a connection of which Go's poller knows nothing: it is read by the goroutine that polls, and written by senders, both without waiting.
type socket struct {
	// Constant after construction.
	p  *peer
	fd int
	in *intake // of the goroutine that polls

	over bool // of the goroutine that polls: it has ended, and is not read any more

	dead   bool // guarded by peer.mu: to be closed
	closed bool // guarded by peer.mu: fd is another file now, perhaps
	full   bool // guarded by peer.mu: there is more to be written when it can take it; then it is not apart
	apart  bool // guarded by peer.mu, set by the goroutine that polls: not in inner, since that one reads it without being told

	// Of who has set peer.writing.
	small  [headSize + directCopy]byte
	gather gathering
}

// directCopy is the largest payload that is copied behind its head, rather than gathered by the system call.
const directCopy = 1 << 10
