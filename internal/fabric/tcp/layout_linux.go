// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/fabric/tcp/turn"
)

// eyes is how an endpoint reads its sockets without a goroutine for each.
type eyes struct {
	// Constant after construction.
	e     *Endpoint
	inner int // a set of epoll with all sockets
	outer int // another one, with inner in it, which speaks once when it is armed: the descriptor of bell
	bell  *os.File
	raw   syscall.RawConn
	epoch time.Time
	guard *time.Timer
	yield func() // lets other processes have the processor

	turn   turn.Turn    // whose turn it is to look
	gaveUp atomic.Int64 // when somebody did, who sleeps since
	full   atomic.Int32 // sockets that are to take more when they can
	open   atomic.Int32 // sockets in inner
	ended  atomic.Bool

	// Of who looks.
	left     time.Duration // when somebody left, since epoch
	polled   time.Duration // when somebody has polled
	yieldAt  int           // constant after Crowd: how many looks, until others get their turn
	lookFor  time.Duration // likewise
	talkers  [2]*socket    // read without asking the set: README.md
	unasked  int           // looks since the set was asked
	streak   int           // rapid looks in a row
	arrivals [32]unix.EpollEvent
}

// call has something done by who looks, or else by the caller.
func (y *eyes) call() { y.turn.Call() }

// socket is a connection of which Go's poller knows nothing: it is read by who looks, and written by who sends, both without waiting.
type socket struct {
	// Constant after construction.
	p  *peer
	fd int
	in *intake // of who looks

	over bool // of who looks: it has ended, and is not read any more

	dead   bool // guarded by peer.mu: to be closed
	closed bool // guarded by peer.mu: fd is another file now, perhaps
	full   bool // guarded by peer.mu: there is more to be written when it can take it; then it is not apart
	apart  bool // guarded by peer.mu, set by who looks: not in inner, since he reads it without being told

	// Of who has set peer.writing.
	small  [headSize + directCopy]byte
	gather gathering
}

// directCopy is the largest payload that is copied behind its head, rather than gathered by the system call.
const directCopy = 1 << 10
