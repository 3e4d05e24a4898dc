// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mux makes one endpoint of several, of which each reaches some ranks.
//
//	ep := mux.New(0, []fabric.Endpoint{tcp, shm, shm, tcp}) // by rank
//
// Invariants:
//   - A pair uses one fabric from the first frame to the last. So the order of its frames is that of its fabric, and a transfer is
//     expected where its bytes come.
//   - Nothing is added to the way of a frame but the choice of an endpoint from a slice: handlers are bound to the fabrics themselves,
//     and so is the goroutine that polls.
//
// The slice is constant, and the fabrics do their own locking; so any goroutine may call anything, as with every endpoint. Close
// closes all fabrics at once, since each may wait for its peers.
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
	peers []fabric.Endpoint // by rank: what reaches it
	all   []fabric.Endpoint // each once
}

// New returns the endpoint of a rank that reaches each peer, and itself, by the given endpoint. If that is one and the same, New
// returns it.
func New(rank int, peers []fabric.Endpoint) fabric.Endpoint {
	e := &endpoint{rank: rank, peers: slices.Clone(peers)}
	for r, p := range e.peers {
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
	if uint(peer) < uint(len(e.peers)) {
		e.peers[peer].Drop(peer, err)
	}
}

// Shared returns the memory that a rank shares, if the fabric to it has such.
func (e *endpoint) Shared(rank int) ([]byte, error) {
	if uint(rank) >= uint(len(e.peers)) {
		return nil, fmt.Errorf("%w: %d of %d", fabric.ErrRank, rank, len(e.peers))
	}
	return e.peers[rank].Shared(rank)
}

func (e *endpoint) Rank() int                       { return e.rank }
func (e *endpoint) Size() int                       { return len(e.peers) }
func (e *endpoint) Caps(peer int) fabric.Caps       { return e.peers[peer].Caps(peer) }
func (e *endpoint) Local(peer int) fabric.Handler   { return e.peers[peer].Local(peer) }
func (e *endpoint) Forget(src int, key uint64) bool { return e.peers[src].Forget(src, key) }

func (e *endpoint) Bind(h fabric.Handler, g fabric.Progress) {
	for _, p := range e.all {
		p.Bind(h, g)
	}
}

func (e *endpoint) Send(dst int, f fabric.Frame) error {
	if uint(dst) >= uint(len(e.peers)) {
		return fmt.Errorf("%w: %d of %d", fabric.ErrRank, dst, len(e.peers))
	}
	return e.peers[dst].Send(dst, f)
}

func (e *endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.peers[src].Expect(src, key, dst, done)
}

func (e *endpoint) Push(dst int, key uint64, data []byte, done func(error)) {
	if uint(dst) >= uint(len(e.peers)) {
		done(fmt.Errorf("%w: %d of %d", fabric.ErrRank, dst, len(e.peers)))
		return
	}
	e.peers[dst].Push(dst, key, data, done)
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
