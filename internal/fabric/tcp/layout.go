// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"weft/internal/fabric"
)

// Endpoint is one rank's end.
type Endpoint struct {
	// Constant after construction.
	cfg    Config
	ln     net.Listener
	addrs  []string
	peers  fabric.Peers[peer]
	ctx    context.Context // ends when the endpoint closes
	cancel context.CancelFunc

	eyes *eyes // nil: each connection has a reader and a writer

	expected fabric.Expected

	handler  fabric.Handler  // set once by Bind, before the first connection
	progress fabric.Progress // likewise

	wg        sync.WaitGroup // all goroutines
	bind      sync.Once
	closeOnce sync.Once
	closeErr  error
}

// peer is what an endpoint knows of another rank.
type peer struct {
	// Constant after construction.
	e    *Endpoint
	rank int

	opened  chan struct{} // closed when the connection is open, or will never be
	wake    chan struct{} // capacity 1: the writer has something to do
	flushed chan struct{} // closed when the closing frame is written, or never will be
	ended   chan struct{} // closed when the reader has ended

	looked atomic.Pointer[socket] // sock, for the goroutine that polls

	mu    sync.Mutex
	state state // guarded by mu
	taken bool  // guarded by mu: a connection that came is being made this peer's
	// guarded by mu until open, then constant: the connection, if a reader and a writer serve it
	conn net.Conn
	sock *socket // likewise: the connection, if it is looked at and written without waiting
	// guarded by mu: why nothing is written to sock any more; what is here is still read
	mute    error
	piece   int     // likewise: the largest piece of a transfer
	queue   []*item // guarded by mu: frames, and the rest of what was written in part
	bulk    []*push // guarded by mu: transfers, in the order of their turns
	closing bool    // guarded by mu: the closing frame is to follow
	over    bool    // guarded by mu: close has ended, and nothing is written any more
	// guarded by mu: the reader reads the piece of transfer place into the user's memory
	placing bool
	place   uint64 // guarded by mu
	stirred bool   // guarded by mu: and is to stop that
	writing bool   // guarded by mu: somebody writes to conn
	bye     bool   // guarded by mu: the peer has sent its closing frame
	err     error  // guarded by mu: why it is lost
}

// item is a frame, or the rest of one, that waits to be written.
type item struct {
	head []byte
	data []byte
	done func(error) // nil: a frame
	last bool        // the closing frame
}

// push is a transfer that is being written, from the user's memory, in pieces of at most peer.piece
// bytes. Transfers to one peer take turns, piece by piece, and frames go before all of them: so
// what waits behind a transfer of any size is a piece, and what the kernel holds.
type push struct {
	key  uint64
	data []byte
	end  func(error) // holders.Release, as a value

	// guarded by peer.mu, or owned by who has it out of peer.bulk: what is before is written, or
	// with an item
	off int

	// holders are those who use data: the rest of the transfer is one, each item with a piece of it
	// another. The last to release calls done.
	holders fabric.Holders
}

// intake takes what comes over a connection apart, however it is cut: whoever reads puts the next
// bytes into room, and says by took how many these are. It is used by one goroutine at a time: the
// reader, or the goroutine that polls.
type intake struct {
	p    *peer
	buf  []byte
	r, w int  // what is read and not delivered is buf[r:w]
	need int  // so much of it takes the frame at r
	shy  bool // a large piece is likely to follow
	bye  bool // the closing frame was here: nothing that comes behind it matters

	// A frame or piece whose data go elsewhere than to buf, and are not all here; then buf is
	// empty.
	kind  uint32 // 0: there is none
	f     fabric.Frame
	size  int
	here  int
	place []byte // of a piece: where the data go; nil: nowhere
	big   []byte // of a frame: likewise
}

type state uint8

const (
	idle state = iota
	connecting
	open
	closed // by this side
	lost
)
