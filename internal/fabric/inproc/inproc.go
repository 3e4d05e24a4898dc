// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package inproc is the fabric between ranks of one process: a frame is delivered by calling the
// destination's handler on the sender's goroutine. Nothing is queued and nothing is copied, so the
// handler can copy the payload directly from the sender's memory to the receiver's.
package inproc

import (
	"context"
	"fmt"
	"sync/atomic"

	"weft/internal/fabric"
)

// EagerLimit is this fabric's Caps.EagerLimit, in bytes. Below it, an unexpected message costs one
// more copy (about a microsecond at this size, less than the wake-up that the copy saves the
// sender). Above it, the sender waits, and the message is copied once. A guess, refined in comm's
// README.
const EagerLimit = 16 << 10

type endpoint struct {
	// Constant after construction.
	rank  int
	peers *fabric.Peers[endpoint] // of all ranks

	// Set once by Bind, before frames flow.
	handler fabric.Handler

	closed atomic.Bool

	expected fabric.Expected
}

// New returns the endpoints of n ranks, connected with each other and with themselves.
func New(n int) ([]fabric.Endpoint, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: %d ranks, at least 1 is needed", fabric.ErrRank, n)
	}
	first := &endpoint{peers: new(fabric.Peers[endpoint])}
	if err := first.Grow(n); err != nil {
		return nil, err
	}
	var eps []fabric.Endpoint
	for _, p := range first.peers.All() {
		eps = append(eps, p)
	}
	return eps, nil
}

// At returns the endpoint of another rank of ep's job, also of one that has joined by Grow. New has
// returned ep.
func At(ep fabric.Endpoint, rank int) fabric.Endpoint { return ep.(*endpoint).peers.At(rank) }

func (e *endpoint) Rank() int { return e.rank }
func (e *endpoint) Size() int { return len(e.peers.All()) }

// Grow makes the endpoints of the ranks that have joined.
func (e *endpoint) Grow(size int) error {
	if e.closed.Load() {
		return fabric.ErrClosed
	}
	return e.peers.Grow(size, func(rank int) *endpoint { return &endpoint{rank: rank, peers: e.peers} })
}

func (e *endpoint) Caps(int) fabric.Caps {
	return fabric.Caps{Kind: "inproc", EagerLimit: EagerLimit, SharedMemory: true}
}

func (e *endpoint) Bind(h fabric.Handler, _ fabric.Progress) { e.handler = h }

// Sources returns none: frames are delivered on their senders' goroutines.
func (e *endpoint) Sources() []fabric.Source { return nil }

// Shared returns ErrUnsupported: all memory of the process is shared.
func (e *endpoint) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }

// Drop does nothing: the ranks of a process end together.
func (e *endpoint) Drop(int, error) {}

func (e *endpoint) Local(peer int) fabric.Handler { return e.peers.At(peer).handler }

func (e *endpoint) Send(dst int, f fabric.Frame) error {
	f.Origin, f.Target = int32(e.rank), int32(dst)
	return e.pass(dst, &f)
}

func (e *endpoint) Relay(hop int, f fabric.Frame) error {
	if err := f.Between(e.Size()); err != nil {
		return err
	}
	return e.pass(hop, &f)
}

func (e *endpoint) pass(hop int, f *fabric.Frame) error {
	p := e.peers.At(hop)
	if p == nil {
		return e.peers.Missing(hop)
	}
	if e.closed.Load() || p.closed.Load() {
		return fabric.ErrClosed
	}
	fabric.Deliver(p.handler, f)
	return nil
}

func (e *endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.expected.Add(src, key, dst, done)
}

func (e *endpoint) Forget(src int, key uint64) bool { return e.expected.Forget(src, key) }

func (e *endpoint) Push(dst int, key uint64, data []byte, done func(error)) {
	p := e.peers.At(dst)
	if p == nil {
		done(e.peers.Missing(dst))
		return
	}
	if e.closed.Load() || p.closed.Load() {
		done(fabric.ErrClosed)
		return
	}
	done(p.expected.Put(e.rank, key, data))
}

func (e *endpoint) Close() error {
	e.closed.Store(true)
	e.expected.Close()
	return nil
}

type divisionKey struct{}

// Divide returns a context under which a run in this process behaves as if its ranks were in
// several processes of these sizes, in the order of ranks: a rank cannot reach the memory of
// another part. Divide is for tests of code that sends messages between processes. Each rank beyond
// the sum of the sizes is in a process of its own.
func Divide(ctx context.Context, sizes ...int) context.Context {
	return context.WithValue(ctx, divisionKey{}, sizes)
}

// Division returns the first rank of each part of a divided run of n ranks, and n; nil if the run
// is not divided.
func Division(ctx context.Context, n int) []int {
	sizes, ok := ctx.Value(divisionKey{}).([]int)
	if !ok {
		return nil
	}
	bounds := []int{0}
	for at := 0; at < n; {
		size := 1
		if len(bounds) <= len(sizes) {
			size = sizes[len(bounds)-1]
		}
		at = min(at+max(size, 1), n)
		bounds = append(bounds, at)
	}
	return bounds
}

// Part returns the endpoints lo to hi-1, which treat the other ranks as being in other processes.
func Part(eps []fabric.Endpoint, lo, hi int) []fabric.Endpoint {
	var part []fabric.Endpoint
	for _, ep := range eps[lo:hi] {
		part = append(part, partial{ep, lo, hi})
	}
	return part
}

// partial hides the handlers of the peers outside its part.
type partial struct {
	fabric.Endpoint
	lo, hi int
}

func (p partial) Caps(peer int) fabric.Caps {
	c := p.Endpoint.Caps(peer)
	c.SharedMemory = p.Local(peer) != nil
	return c
}

func (p partial) Local(peer int) fabric.Handler {
	if peer < p.lo || peer >= p.hi {
		return nil
	}
	return p.Endpoint.Local(peer)
}
