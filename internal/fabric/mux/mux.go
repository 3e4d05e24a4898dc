// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mux makes one endpoint of several, of which each reaches some ranks.
//
//	ep := mux.New(0, []fabric.Endpoint{tcp, shm, shm, tcp}, nil) // by rank
//
// Invariants:
//   - A pair uses one fabric from the first frame to the last. So the order of its frames is that
//     of its fabric, and a transfer is expected where its bytes come.
//   - Nothing is added to the way of a frame but the choice of an endpoint from a slice: handlers
//     are bound to the fabrics themselves, and so is the goroutine that polls.
//
// The table only grows, and the fabrics do their own locking; so any goroutine may call anything,
// as with every endpoint. Close closes all fabrics at once, since each may wait for its peers.
package mux

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"weft/internal/fabric"
)

// endpoint is one rank's end of several fabrics. All is constant after construction.
type endpoint struct {
	rank  int
	peers fabric.Peers[fabric.Endpoint] // by rank: what reaches it
	all   []fabric.Endpoint             // each once
	more  func(rank int) fabric.Endpoint
}

// New returns the endpoint of a rank that reaches each peer, and itself, by the given endpoint. If
// that is one and the same, New returns it.
//
// more says which of them reaches a rank that joins; nil: ranks cannot join, unless there is one
// endpoint, which says so itself.
func New(rank int, peers []fabric.Endpoint, more func(rank int) fabric.Endpoint) fabric.Endpoint {
	e := &endpoint{rank: rank, more: more}
	_ = e.peers.Grow(len(peers), func(r int) *fabric.Endpoint { return &peers[r] })
	for r, p := range peers {
		if p.Rank() != rank || p.Size() != len(peers) {
			panic(fmt.Sprintf("mux: to rank %d by the endpoint of rank %d of %d, in that of rank %d of %d", r, p.Rank(), p.Size(), rank, len(peers)))
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

// Sources are those of all.
func (e *endpoint) Sources() (all []fabric.Source) {
	for _, p := range e.all {
		all = append(all, p.Sources()...)
	}
	return all
}

// Drop passes on the loss of a peer.
func (e *endpoint) Drop(peer int, err error) {
	if p := e.peers.At(peer); p != nil {
		(*p).Drop(peer, err)
	}
}

// Shared returns the memory that a rank shares, if the fabric to it has such.
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

// Grow has all fabrics grow, and chooses one for each rank that has joined.
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
