// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/waits"
)

// New returns the endpoint of a rank.
func New(cfg Config) (*Endpoint, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	e := &Endpoint{cfg: cfg}
	var err error
	if e.box, e.file, err = makeInbox(cfg.Room); err != nil {
		return nil, err
	}
	if e.bell, err = newBell(); err != nil {
		return nil, errors.Join(err, e.release())
	}
	// Where a process may be read by its descendants only, this one lets all of its user read it.
	// Elsewhere the call is not known.
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	switch {
	case cfg.SingleCopy == 0:
		e.cfg.SingleCopy = env.DefaultSingleCopy
	case cfg.SingleCopy < 0:
		e.cfg.SingleCopy = math.MaxInt
	}
	if err := e.Grow(cfg.Size); err != nil {
		return nil, errors.Join(err, e.release())
	}
	e.bulk.out, e.bulk.in = make(map[transferKey]*outgoing), make(map[transferKey]*incoming)
	token := e.box.head.token[:]
	// The process, its descriptors of inbox and pipe, what it says of itself in the inbox, and
	// where that is in its memory.
	e.addr = fmt.Sprintf("%d %d %d %x %x", os.Getpid(), e.file.Fd(), e.bell.descriptor(), token, address(token))
	return e, nil
}

func (e *Endpoint) release() error {
	e.box.unmap()
	err := e.file.Close()
	if e.bell != nil {
		err = errors.Join(err, e.bell.close())
	}
	return err
}

// Addr returns what the others' Lookup is to return.
func (e *Endpoint) Addr() string { return e.addr }

// Rank returns the endpoint's rank.
func (e *Endpoint) Rank() int { return e.cfg.Rank }

// Size returns the number of ranks.
func (e *Endpoint) Size() int { return len(e.peers.All()) }

// Grow makes the ranks up to size peers, which Config.Lookup knows from now on.
func (e *Endpoint) Grow(size int) error {
	if size > e.cfg.Room {
		return fmt.Errorf("%w: shm: %d ranks; there is room for %d", fabric.ErrRank, size, e.cfg.Room)
	}
	return e.peers.Grow(size, func(rank int) *peer { return newPeer(e, rank) })
}

// Caps returns the properties of the connection to a peer.
func (e *Endpoint) Caps(int) fabric.Caps {
	return fabric.Caps{Kind: "shm", EagerLimit: EagerLimit, MaxFrame: MaxFrame, SharedMemory: true}
}

// Sources is the endpoint.
func (e *Endpoint) Sources() []fabric.Source { return []fabric.Source{e} }

// Bind sets the handler. From now on frames are delivered.
func (e *Endpoint) Bind(h fabric.Handler, p fabric.Progress) {
	if e.bound.Swap(true) {
		return
	}
	e.handler, e.progress = h, p
	e.wg.Go(waits.Service(e.sleeper))
}

// Local returns the handler for the rank itself.
func (e *Endpoint) Local(peer int) fabric.Handler {
	if peer == e.cfg.Rank {
		return e.handler
	}
	return nil
}

// Send moves one frame to a rank.
func (e *Endpoint) Send(dst int, f fabric.Frame) error {
	f.Origin, f.Target = int32(e.cfg.Rank), int32(dst)
	if p := e.peers.At(dst); p != nil && dst != e.cfg.Rank && len(f.Data) <= MaxFrame {
		return p.send(kindFrame, &f, nil)
	}
	return e.pass(dst, &f)
}

// Relay passes on a frame that is on its way.
func (e *Endpoint) Relay(hop int, f fabric.Frame) error {
	if err := f.Between(e.Size()); err != nil {
		return err
	}
	return e.pass(hop, &f)
}

func (e *Endpoint) pass(hop int, f *fabric.Frame) error {
	p := e.peers.At(hop)
	switch {
	case p == nil:
		return e.peers.Missing(hop)
	case len(f.Data) > MaxFrame:
		return fmt.Errorf("%w: a frame of %d bytes; the largest is %d", fabric.ErrUnsupported, len(f.Data), MaxFrame)
	case hop == e.cfg.Rank:
		if e.closed.Load() {
			return fabric.ErrClosed
		}
		fabric.Deliver(e.handler, f)
		return nil
	}
	return p.send(kindFrame, f, nil)
}

// Expect says where the bytes of a transfer are to be put.
func (e *Endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.expected.Add(src, key, dst, done)
}

// Forget takes an expectation back.
func (e *Endpoint) Forget(src int, key uint64) bool { return e.expected.Forget(src, key) }

// Push sends the bytes of a transfer.
func (e *Endpoint) Push(dst int, key uint64, data []byte, done func(error)) {
	p := e.peers.At(dst)
	switch {
	case p == nil:
		done(e.peers.Missing(dst))
	case dst != e.cfg.Rank:
		p.push(key, data, done)
	case e.closed.Load():
		done(fabric.ErrClosed)
	default:
		done(e.expected.Put(dst, key, data))
	}
}

// Shared returns the memory that a rank shares.
func (e *Endpoint) Shared(rank int) ([]byte, error) {
	if rank == e.cfg.Rank {
		return e.box.shared(), nil
	}
	p := e.peers.At(rank)
	if p == nil {
		return nil, e.peers.Missing(rank)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	return p.box.shared(), nil
}

// linger is how long Close waits for peers to take what is queued. Tests wait less long.
var linger = 5 * time.Second

// Close ends the rank's part: what is queued is written, transfers that are begun end, both in
// bounded time, and the peers are told. What is in their rings stays there.
func (e *Endpoint) Close() error {
	e.closeOnce.Do(func() {
		d := newDeadline(linger)
		if e.bound.Load() {
			e.bulk.flush(d)
		}
		peers := e.peers.Close()
		for _, p := range peers {
			p.close()
		}
		if e.bound.Load() {
			for _, p := range peers {
				p.flushed.wait(d)
			}
		}
		e.closed.Store(true) //bug:close
		e.bell.ring()        // the sleeper ends //bug:close
		for _, p := range peers {
			p.unwatch()
		}
		e.wg.Wait()
		if e.bound.Load() && !e.progress.Retire(e, linger) {
			// A handler that does not return, or has ended its goroutine. What it may use stays
			// mapped.
			e.closeErr = errors.New("shm: somebody still looks at what has come")
			return
		}
		e.Work()
		if !e.bulk.settle(newDeadline(linger)) {
			e.closeErr = errors.New("shm: somebody still copies a transfer") // likewise
			return
		}
		for _, p := range peers {
			p.leave()
		}
		e.bulk.fail(nil, fabric.ErrClosed)
		e.expected.Close()
		e.closeErr = e.release()
	})
	return e.closeErr
}
