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
	if e.doorbell, err = newDoorbell(); err != nil {
		return nil, errors.Join(err, e.release())
	}
	// Some kernels let only a process's ancestors read its memory (Yama). Allow all processes of
	// the user. Kernels without Yama return an error.
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
	// The process, its descriptors of inbox and pipe, the inbox's token, and the token's address in
	// the memory of the process.
	e.addr = fmt.Sprintf("%d %d %d %x %x", os.Getpid(), e.file.Fd(), e.doorbell.descriptor(), token, address(token))
	return e, nil
}

func (e *Endpoint) release() error {
	e.box.unmap()
	err := e.file.Close()
	if e.doorbell != nil {
		err = errors.Join(err, e.doorbell.close())
	}
	return err
}

// Addr returns the string that the Lookup of other ranks must return for this rank.
func (e *Endpoint) Addr() string { return e.addr }

// Rank returns the endpoint's rank.
func (e *Endpoint) Rank() int { return e.cfg.Rank }

// Size returns the number of ranks.
func (e *Endpoint) Size() int { return len(e.peers.All()) }

// Grow makes the ranks below size peers. From now on Config.Lookup must know them.
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

// Sources returns the endpoint itself.
func (e *Endpoint) Sources() []fabric.Source { return []fabric.Source{e} }

// Bind sets the handler and the engine. From now on frames are delivered. Later calls do nothing.
func (e *Endpoint) Bind(h fabric.Handler, p fabric.Progress) {
	if e.bound.Swap(true) {
		return
	}
	e.handler, e.progress = h, p
	e.wg.Go(waits.Service(e.doorbellLoop))
}

// Local returns the handler if peer is this rank, otherwise nil.
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

// Relay sends a frame of another rank on to the rank hop.
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

// Expect registers the destination of a transfer.
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

// closeTimeout bounds each wait of Close. Tests shorten it.
var closeTimeout = 5 * time.Second

// Close closes the endpoint. In bounded time, it writes the queued frames, waits for the end of
// transfers that have begun, and tells the peers. Frames in the peers' rings stay there.
func (e *Endpoint) Close() error {
	e.closeOnce.Do(func() {
		d := newDeadline(closeTimeout)
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
		e.doorbell.ring()    // the doorbell goroutine ends //bug:close
		for _, p := range peers {
			p.unwatch()
		}
		e.wg.Wait()
		if e.bound.Load() && !e.progress.Retire(e, closeTimeout) {
			// A handler does not return, or has ended its goroutine. The memory that it may use
			// stays mapped.
			e.closeErr = errors.New("shm: a goroutine still polls, or handles a frame; its memory stays mapped")
			return
		}
		e.Work()
		if !e.bulk.awaitIdle(newDeadline(closeTimeout)) {
			e.closeErr = errors.New("shm: a goroutine still copies a transfer; its memory stays mapped")
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
