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

// Endpoint is one rank's endpoint.
type Endpoint struct {
	// Constant after construction.
	cfg    Config
	ln     net.Listener
	addrs  []string
	peers  fabric.Peers[peer]
	ctx    context.Context // ends when the endpoint closes
	cancel context.CancelFunc

	poller *poller // nil: each connection has a reader and a writer

	expected fabric.Expected

	handler  fabric.Handler  // set once by Bind, before the first connection
	progress fabric.Progress // likewise

	wg        sync.WaitGroup // all goroutines
	bind      sync.Once
	closeOnce sync.Once
	closeErr  error
}

// peer is an endpoint's state of another rank. doc.go has the states.
type peer struct {
	// Constant after construction.
	e    *Endpoint
	rank int

	opened  chan struct{} // closed when the connection is open, or will never be
	wake    chan struct{} // capacity 1: wakes the writer
	flushed chan struct{} // closed when the closing frame is written, or never will be
	ended   chan struct{} // closed when the reading has ended

	polled atomic.Pointer[socket] // sock, for the goroutine that polls

	mu    sync.Mutex
	state state // guarded by mu
	// guarded by mu: a connection that the peer has made was accepted, and will be open soon
	taken bool
	// guarded by mu until open, then constant: the connection, if it has a reader and a writer
	conn net.Conn
	sock *socket // likewise: the connection, if it is polled, and written without waiting
	// guarded by mu: why nothing is written to sock any more; bytes that arrive are still read
	writeErr error
	piece    int // likewise: the largest piece of a transfer
	// guarded by mu: frames, and the rests of frames and pieces that were written in part
	queue []*item
	bulk  []*push // guarded by mu: transfers, in the order of their turns
	// guarded by mu: the closing frame must still be written, after everything else
	closing bool
	over    bool // guarded by mu: close has ended, and nothing is written any more
	// guarded by mu: a piece of transfer fillKey is half read, into the user's memory
	filling     bool
	fillKey     uint64 // guarded by mu
	interrupted bool   // guarded by mu: the user's memory must be released
	writing     bool   // guarded by mu: a goroutine writes to conn or sock
	bye         bool   // guarded by mu: the peer has sent its closing frame
	err         error  // guarded by mu: why the peer is lost
}

// item is a frame, or the rest of one, that waits to be written.
type item struct {
	head []byte
	data []byte
	done func(error) // nil: a frame
	last bool        // the closing frame
}

// push is a transfer that is being written, from the user's memory, in pieces of at most peer.piece
// bytes. Transfers to one peer take turns, piece by piece, and frames go before all of them. So a
// frame waits for at most one piece and the bytes that the kernel holds, however large the
// transfers are.
type push struct {
	key  uint64
	data []byte
	end  func(error) // holders.Release, as a value

	// guarded by peer.mu, or owned by the goroutine that has taken the push out of peer.bulk: the
	// bytes before off are written, or belong to an item
	off int

	// holders counts the uses of data: one for the rest of the transfer, and one for each item with
	// a piece of the transfer. The last Release calls done.
	holders fabric.Holders
}

// intake is the decoder of a connection's byte stream. The goroutine that reads calls room for
// memory, reads the next bytes into it, however many there are, and passes their number to took.
// One goroutine at a time uses an intake: the reader, or the goroutine that polls.
type intake struct {
	p     *peer
	buf   []byte
	r, w  int  // buf[r:w] is read and not delivered
	need  int  // number of bytes of the frame, or head, that begins at r
	short bool // a large piece probably follows: read little after its head
	bye   bool // the closing frame was read: later bytes are ignored

	// A frame or piece that is half read, and whose data are not read into buf; buf is empty
	// meanwhile.
	kind uint32 // 0: none
	f    fabric.Frame
	size int
	here int
	dst  []byte // the memory for the data of a piece; nil: the data are dropped
	big  []byte // the memory for the data of a frame
}

type state uint8

const (
	idle state = iota
	connecting
	open
	closed // by this side
	lost
)
