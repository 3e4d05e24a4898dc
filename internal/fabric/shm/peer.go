//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"os"
	"sync"

	"weft/internal/fabric"
	"weft/internal/xatomic"
)

type state uint8

const (
	idle state = iota
	open
	closing // this side has begun to close
	lost
)

// peer is an endpoint's state for one other rank.
type peer struct {
	// Constant after construction.
	e       *Endpoint
	rank    int
	flushed signal // the closing frame is written, or never will be

	gone   xatomic.Bool // no more frames are taken from its ring
	dead   xatomic.Bool // it cannot be reached: it writes no more frames to its ring
	queued xatomic.Bool // queue is not empty

	// Owned by the goroutine that has the turn to poll.
	joined        bool
	countersInUse uint32 // guarded by bulk.mu: a set
	deathHandled  bool   // handleDeaths has lost it
	in            ring

	mu    xatomic.VisibleMutex
	state state // guarded by mu
	err   error // guarded by mu: why it is lost
	ended bool  // guarded by mu: lose has run
	out   ring  // guarded by mu
	queue []item

	// Written under mu when the state becomes open, constant then.
	pid          int
	box          *inbox
	doorbellWord *xatomic.Uint32
	doorbell     peerDoorbell
	singleCopy   bool // the kernel lets this process read its memory
	watch        *os.File
}

// item is a queued frame, which waits for room in the ring.
type item struct {
	kind uint64
	f    fabric.Frame
	done func(error) // nil: the data are a copy
}

func newPeer(e *Endpoint, rank int) *peer { return &peer{e: e, rank: rank, flushed: newSignal()} }

// connect opens the peer's inbox and announces this rank there. The caller holds mu; the state is
// idle.
func (p *peer) connect() error {
	if err := p.reach(); err != nil {
		return err
	}
	p.doorbellWord = &p.box.head.doorbellWord
	p.out = p.box.outgoing(p.e.cfg.Rank)
	p.out.prepare(len(p.e.peers.All()))
	p.state = open
	p.watchProcess()
	p.out.ctl.joined.Store(1)
	p.box.head.joins.Add(1)
	return nil
}

// unreachable marks the peer dead. The goroutine that polls loses it after its last frame is
// delivered.
func (p *peer) unreachable() {
	if !p.dead.Swap(true) {
		p.e.deaths.Add(1)
		// Whatever the doorbell word is: the peer may have died between its change of the word and
		// its byte, and then the word stays odd.
		p.e.doorbell.ring() //bug:death
	}
}

// open connects with the peer unless that has been tried before. The caller holds mu.
func (p *peer) open() error {
	switch p.state {
	case idle:
		if err := p.connect(); err != nil {
			p.state, p.err = lost, fmt.Errorf("shm: rank %d: %w", p.rank, err)
			p.unreachable()
			return p.err
		}
	case lost:
		return p.err
	case closing:
		return fabric.ErrClosed
	}
	return nil
}

// unwatch ends the goroutine that watches the peer's process.
func (p *peer) unwatch() {
	p.mu.Lock()
	w := p.watch
	p.mu.Unlock()
	if w != nil {
		_ = w.Close()
	}
}

// connectBack connects with a peer that has sent to this rank: this rank will have to wake it, and
// watches its process.
func (p *peer) connectBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.open()
}

// send writes a frame or queues it. If it returns an error, it does not call done.
func (p *peer) send(kind uint64, f *fabric.Frame, done func(error)) error {
	p.mu.Lock()
	err := p.open()
	// A peer that has sent, and cannot be reached, may have sent the reason: the error must come
	// after its frames. So queue the frame, which ends with the error in lose.
	last := p.state == lost && !p.ended && p.e.box.control(p.rank).joined.Load() != 0
	if err != nil && !last {
		p.mu.Unlock()
		return err
	}
	if !last && len(p.queue) == 0 && p.out.put(kind, f) { //bug:W1
		p.ringDoorbell()
		p.mu.Unlock()
		if done != nil {
			done(nil)
		}
		return nil
	}
	it := item{kind, *f, done}
	if done == nil {
		it.f.Data = append([]byte(nil), f.Data...)
	}
	p.enqueue(it)
	p.mu.Unlock()
	p.flush()
	return nil
}

// enqueue appends to the queue. The caller holds mu.
func (p *peer) enqueue(it item) {
	p.queue = append(p.queue, it)
	if len(p.queue) == 1 {
		p.queued.Store(true)
		p.e.pending.Add(1)
	}
}

// flush writes queued frames to the ring as long as there is room, and reports whether it wrote
// any. If some do not fit, the consumer wakes this side later.
func (p *peer) flush() bool {
	p.mu.Lock()
	if len(p.queue) == 0 || p.state == lost {
		p.mu.Unlock()
		return false
	}
	n := 0
	write := func() {
		for n < len(p.queue) && p.out.put(p.queue[n].kind, &p.queue[n].f) {
			n++
		}
	}
	write()
	if n < len(p.queue) { //bug:F3
		p.out.ctl.waiting.Store(1)
		write()
	}
	out := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
		p.unqueue()
	}
	if n > 0 {
		p.ringDoorbell()
	}
	p.mu.Unlock()
	for _, it := range out {
		p.written(it, nil)
	}
	return n > 0
}

func (p *peer) unqueue() {
	p.queued.Store(false)
	p.e.pending.Add(-1)
}

// written ends a queued frame: it is in the ring, or, with err, never will be.
func (p *peer) written(it item, err error) {
	if it.done != nil {
		it.done(err)
	}
	if it.kind == kindClose {
		p.flushed.set()
	}
}

// ringDoorbell wakes the peer's doorbell goroutine if no goroutine polls there (W2). The caller
// holds mu: after mu is released, leave may unmap the word and close the doorbell.
func (p *peer) ringDoorbell() {
	for range doorbellSpin { //bug:W2-load
		if p.doorbellWord.Load() != 0 {
			return
		}
	}
	if p.doorbellWord.CompareAndSwap(0, wordRung) { //bug:W2-change
		p.doorbell.ring()
	}
}

// ringForRoom wakes a peer that waits for room in its ring in this rank's inbox (C4).
func (p *peer) ringForRoom() {
	p.mu.Lock()
	if p.state == open || p.state == closing && p.box != nil {
		p.ringDoorbell()
	}
	p.mu.Unlock()
}

// handleControl handles a control frame from the peer's ring. The caller has the turn to poll.
func (p *peer) handleControl(kind uint64, f *fabric.Frame) error {
	switch kind {
	case kindClose:
		p.lose(nil) // no frame is taken after this one
		return nil
	case kindPiece:
		n := len(f.Data)
		dst, err := p.e.expected.Begin(p.rank, f.Head[0], f.Head[1], n)
		if dst != nil {
			copy(dst, f.Data)
			p.e.expected.End(p.rank, f.Head[0], n, nil)
		}
		return err
	case kindOffer:
		return p.offered(f.Head[0], f.Head[1], f.Head[2])
	case kindInvite:
		return p.invited(f.Head[0], f.Head[1], f.Head[2], f.Head[3])
	default:
		return p.over(f.Head[0], f.Head[1])
	}
}

// lose ends all queued frames and transfers with the peer. If err is nil, the peer has said
// goodbye. Otherwise lose calls Handler.Lost, unless this side has closed.
func (p *peer) lose(err error) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	tell := err != nil && p.state != closing
	switch {
	case err == nil:
		err = fmt.Errorf("%w: by rank %d", fabric.ErrClosed, p.rank)
	case p.err != nil:
		err = p.err
	default:
		err = fmt.Errorf("shm: rank %d: %w", p.rank, err)
	}
	p.state, p.err, p.ended = lost, err, true
	queue := p.queue
	p.queue = nil
	if len(queue) > 0 {
		p.unqueue()
	}
	p.gone.Store(true)
	p.mu.Unlock()
	for _, it := range queue {
		p.written(it, err)
	}
	p.e.bulk.fail(p, err)
	p.e.expected.Lose(p.rank, err)
	if tell {
		p.e.handler.Lost(p.rank, err)
	}
}

// close begins to close this side: it queues the closing frame.
func (p *peer) close() {
	p.mu.Lock()
	if p.state == idle && p.e.box.control(p.rank).joined.Load() != 0 {
		_ = p.open() // the peer has sent, so it must get the closing frame
	}
	was := p.state
	if was <= open {
		p.state = closing
	}
	if was == open {
		p.enqueue(item{kind: kindClose})
	}
	p.mu.Unlock()
	if was == open {
		p.flush()
	} else {
		p.flushed.set()
	}
}

// leave unmaps the peer's inbox. No goroutine polls, and the state is closing or lost.
func (p *peer) leave() {
	p.mu.Lock()
	queue := p.queue
	p.queue = nil
	box := p.box
	p.mu.Unlock()
	for _, it := range queue {
		p.written(it, fabric.ErrClosed)
	}
	if box != nil {
		box.unmap()
		p.doorbell.close()
	}
}

// Endpoint is one rank's end of the fabric.
type Endpoint struct {
	fabric.NoSource // for Serve, which does nothing

	// Constant after construction.
	cfg      Config
	box      *inbox
	file     *os.File // of box
	doorbell *doorbell
	peers    fabric.Peers[peer]
	addr     string

	handler  fabric.Handler  // set once by Bind
	progress fabric.Progress // likewise

	expected fabric.Expected
	bulk     bulk

	// Owned by the goroutine that has the turn to poll.
	disarmed bool         // whether wordDisarmed is set in the doorbell word
	joins    uint32       // number of producers that join has found
	active   []*peer      // peers that have sent and are not gone
	frame    fabric.Frame // the frame that is being delivered

	pending xatomic.Int32 // number of peers with queued frames
	deaths  xatomic.Int32 // number of dead peers that handleDeaths must still lose

	closed    xatomic.Bool
	bound     xatomic.Bool
	wg        group // all goroutines
	closeOnce sync.Once
	closeErr  error
}
