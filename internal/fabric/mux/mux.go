// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mux combines several endpoints of one rank, each of which reaches some ranks, into one
// endpoint.
//
//	ep := mux.New(0, []fabric.Endpoint{tcp, shm, shm, tcp}, nil) // by rank
//
// Invariants:
//   - A pair of ranks uses one fabric from the first frame to the last. So the fabric keeps the
//     order of the pair's frames, and a transfer's bytes arrive at the fabric that expects them.
//   - Package mux adds one step to a frame's path, the choice of an endpoint from a slice. The
//     handler and the engine are bound to each fabric itself.
//
// The table of peers only grows, and the fabrics do their own locking; so any goroutine may call
// any method, as with every endpoint. Close closes all fabrics at once, since each may wait for its
// peers.
package mux

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"weft/internal/fabric"
)

// endpoint is one rank's endpoint of several fabrics. All fields are constant after construction.
type endpoint struct {
	rank  int
	peers fabric.Peers[fabric.Endpoint] // by rank: the endpoint that reaches the rank
	all   []fabric.Endpoint             // each once
	more  func(rank int) fabric.Endpoint
}

// New returns the endpoint of a rank that reaches each rank by the endpoint peers[rank]; peers has
// an entry for the rank itself, too. If all entries are the same endpoint, New returns that.
//
// more chooses one of these endpoints for a rank that joins. If more is nil, ranks cannot join,
// unless there is only one endpoint, whose own Grow decides.
func New(rank int, peers []fabric.Endpoint, more func(rank int) fabric.Endpoint) fabric.Endpoint {
	e := &endpoint{rank: rank, more: more}
	_ = e.peers.Grow(len(peers), func(r int) *fabric.Endpoint { return &peers[r] })
	for r, p := range peers {
		if p.Rank() != rank || p.Size() != len(peers) {
			panic(fmt.Sprintf("mux: rank %d would be reached by an endpoint of rank %d of %d; this is rank %d of %d", r, p.Rank(), p.Size(), rank, len(peers)))
		}
		if !slices.Contains(e.all, p) {
			e.all = append(e.all, p)
		}
	}
	if len(e.all) == 1 {
		return e.all[0]
	}
	return e
}

// Sources returns the sources of all fabrics.
func (e *endpoint) Sources() (all []fabric.Source) {
	for _, p := range e.all {
		all = append(all, p.Sources()...)
	}
	return all
}

// Drop drops a peer at the fabric that reaches it.
func (e *endpoint) Drop(peer int, err error) {
	if p := e.peers.At(peer); p != nil {
		(*p).Drop(peer, err)
	}
}

// Shared returns the memory that a rank shares, if the fabric that reaches the rank has shared
// memory.
func (e *endpoint) Shared(rank int) ([]byte, error) {
	p := e.peers.At(rank)
	if p == nil {
		return nil, e.peers.Missing(rank)
	}
	return (*p).Shared(rank)
}

func (e *endpoint) Rank() int                       { return e.rank }
func (e *endpoint) Size() int                       { return len(e.peers.All()) }
func (e *endpoint) to(peer int) fabric.Endpoint     { return *e.peers.At(peer) }
func (e *endpoint) Caps(peer int) fabric.Caps       { return e.to(peer).Caps(peer) }
func (e *endpoint) Local(peer int) fabric.Handler   { return e.to(peer).Local(peer) }
func (e *endpoint) Forget(src int, key uint64) bool { return e.to(src).Forget(src, key) }

// Grow grows all fabrics, and chooses one for each rank that has joined.
func (e *endpoint) Grow(size int) error {
	if e.more == nil && size != e.Size() {
		return fabric.ErrUnsupported
	}
	for _, p := range e.all {
		if err := p.Grow(size); err != nil {
			return err
		}
	}
	return e.peers.Grow(size, func(rank int) *fabric.Endpoint {
		p := e.more(rank)
		return &p
	})
}

func (e *endpoint) Bind(h fabric.Handler, g fabric.Progress) {
	for _, p := range e.all {
		p.Bind(h, g)
	}
}

func (e *endpoint) Send(dst int, f fabric.Frame) error {
	p := e.peers.At(dst)
	if p == nil {
		return e.peers.Missing(dst)
	}
	return (*p).Send(dst, f)
}

func (e *endpoint) Relay(hop int, f fabric.Frame) error {
	p := e.peers.At(hop)
	if p == nil {
		return e.peers.Missing(hop)
	}
	return (*p).Relay(hop, f)
}

func (e *endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.to(src).Expect(src, key, dst, done)
}

func (e *endpoint) Push(dst int, key uint64, data []byte, done func(error)) {
	p := e.peers.At(dst)
	if p == nil {
		done(e.peers.Missing(dst))
		return
	}
	(*p).Push(dst, key, data, done)
}

func (e *endpoint) Close() error {
	errs := make([]error, len(e.all))
	var wg sync.WaitGroup
	for i, p := range e.all {
		wg.Go(func() { errs[i] = p.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
