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
	closing // by this side
	lost
)

// peer is what an endpoint knows of another rank.
type peer struct {
	// Constant after construction.
	e       *Endpoint
	rank    int
	flushed signal // the closing frame is written, or never will be

	gone   xatomic.Bool // nothing is taken from its ring any more
	dead   xatomic.Bool // it cannot be reached: what is in its ring is the last
	queued xatomic.Bool // there is a queue

	// Of the goroutine that polls.
	joined bool
	deals  uint32 // guarded by bulk.mu: counters in use
	buried bool
	in     ring

	mu    xatomic.VisibleMutex
	state state // guarded by mu
	err   error // guarded by mu: why it is lost
	ended bool  // guarded by mu: everything with it has ended
	out   ring  // guarded by mu
	queue []item

	// Written under mu when the state becomes open, constant then.
	pid   int
	box   *inbox
	look  *xatomic.Uint32
	rope  rope // of its bell
	copy  bool // its memory can be read
	watch *os.File
}

// item is a frame that waits for room.
type item struct {
	kind uint64
	f    fabric.Frame
	done func(error) // nil: the data are a copy
}

func newPeer(e *Endpoint, rank int) *peer { return &peer{e: e, rank: rank, flushed: newSignal()} }

// connect makes itself known in the peer's inbox. The caller holds mu; the state is idle.
func (p *peer) connect() error {
	if err := p.reach(); err != nil {
		return err
	}
	p.look = &p.box.head.look
	p.out = p.box.outgoing(p.e.cfg.Rank)
	p.out.prepare(len(p.e.peers.All()))
	p.state = open
	p.watchProcess()
	p.out.ctl.joined.Store(1)
	p.box.head.joins.Add(1)
	return nil
}

// unreachable has the goroutine that polls end everything with the peer, when its last frame is
// delivered.
func (p *peer) unreachable() {
	if !p.dead.Swap(true) {
		p.e.deaths.Add(1)
		// Whatever the look word says: it may be odd because the peer has died between the change
		// and the byte.
		p.e.bell.ring() //bug:death
	}
}

// open connects with the peer if this has not been tried. The caller holds mu.
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

// unwatch ends the watching.
func (p *peer) unwatch() {
	p.mu.Lock()
	w := p.watch
	p.mu.Unlock()
	if w != nil {
		_ = w.Close()
	}
}

// meet connects with a peer that has sent: it will have to be woken, and watched.
func (p *peer) meet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.open()
}

// send writes a frame or queues it. done is the caller's to call if there is an error.
func (p *peer) send(kind uint64, f *fabric.Frame, done func(error)) error {
	p.mu.Lock()
	err := p.open()
	// A peer that has sent, and cannot be reached, may have said why: the error comes behind its
	// frames.
	last := p.state == lost && !p.ended && p.e.box.control(p.rank).joined.Load() != 0
	if err != nil && !last {
		p.mu.Unlock()
		return err
	}
	if !last && len(p.queue) == 0 && p.out.put(kind, f) { //bug:W1
		p.knock()
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

// flush writes what is queued, as far as there is room, and reports whether there was. If there is
// not, the consumer wakes this side later.
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
		p.knock()
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

func (p *peer) written(it item, err error) {
	if it.done != nil {
		it.done(err)
	}
	if it.kind == kindClose {
		p.flushed.set()
	}
}

// knock wakes the peer's sleeper if nobody looks there. The caller holds mu, behind which leave
// unmaps the word and closes the rope.
func (p *peer) knock() {
	for range knockSpin { //bug:W2-look
		if p.look.Load() != 0 {
			return
		}
	}
	if p.look.CompareAndSwap(0, lookRung) { //bug:W2-claim
		p.rope.ring()
	}
}

// rouse wakes the peer, which waits for room in its ring here.
func (p *peer) rouse() {
	p.mu.Lock()
	if p.state == open || p.state == closing && p.box != nil {
		p.knock()
	}
	p.mu.Unlock()
}

// take takes a frame of this fabric's own from the peer's ring. The caller polls.
func (p *peer) take(kind uint64, f *fabric.Frame) error {
	switch kind {
	case kindClose:
		p.lose(nil) // nothing is taken behind it
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

// lose ends everything with the peer. Without err it has said goodbye; otherwise the handler is
// told, unless this side has closed.
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

// close begins to end this side.
func (p *peer) close() {
	p.mu.Lock()
	if p.state == idle && p.e.box.control(p.rank).joined.Load() != 0 {
		_ = p.open() // it has sent, and is to hear that this side closes
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

// leave unmaps the peer's inbox. Nobody looks, and the state is closing or lost.
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
		p.rope.close()
	}
}

// Endpoint is one rank's end.
type Endpoint struct {
	fabric.NoSource // there is nothing to Serve

	// Constant after construction.
	cfg   Config
	box   *inbox
	file  *os.File // of box
	bell  *bell    // wakes the sleeper
	peers fabric.Peers[peer]
	addr  string

	handler  fabric.Handler  // set once by Bind
	progress fabric.Progress // likewise

	expected fabric.Expected
	bulk     bulk

	// Of the goroutine that polls.
	isAwake bool         // the look word says so
	joins   uint32       // producers that are known
	active  []*peer      // those who have sent
	frame   fabric.Frame // the one that is being taken

	pending xatomic.Int32 // peers with frames that wait for room
	// peers whose processes have ended, and whose rings are to be looked at for the last time
	deaths xatomic.Int32

	closed    xatomic.Bool
	bound     xatomic.Bool
	wg        group // all goroutines
	closeOnce sync.Once
	closeErr  error
}
