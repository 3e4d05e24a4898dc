// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mux chooses a fabric for each pair of ranks, and makes one endpoint of several.
//
//	w, err := mux.WishesFromEnv(os.Getenv)               // PSP_SHM, PSP_TCP, ..., WEFT_FABRIC
//	offer := mux.Offer{"tcp": {Priority: w["tcp"], Addr: addr}}
//	...                                                  // ranks exchange their offers, as Encode makes them
//	name, err := mux.Choose(mux.Side{0, offer, node}, mux.Side{1, other, othersNode})
//	ep := mux.New(0, []fabric.Endpoint{tcp, shm, shm, tcp}) // by rank
//
// Invariants:
//   - Both ranks of a pair choose the same fabric: the choice depends on what both have offered, and not on who chooses.
//   - A pair uses one fabric from the first frame to the last. So the order of its frames is that of its fabric, and a transfer is
//     expected where its bytes come.
//   - Nothing is added to the way of a frame but the choice of an endpoint from a slice: handlers are bound to the fabrics themselves.
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
	eyes  fabric.Looker     // the one of these that is looked at first; nil
	sides []fabric.Looker   // the others
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
	e.open()
	return e
}

// open finds the fabrics that can be looked at. The first is one that can look for the others too, if there is one.
func (e *endpoint) open() {
	for _, p := range e.all {
		l, ok := p.(fabric.Looker)
		if !ok {
			continue
		}
		if _, beside := p.(fabric.Beside); beside && e.eyes == nil {
			e.eyes = l
		} else {
			e.sides = append(e.sides, l)
		}
	}
	if len(e.sides) == 0 {
		return
	}
	if b, ok := e.eyes.(fabric.Beside); ok {
		b.Beside(func() bool { return e.aside(0) })
		return
	}
	e.eyes, e.sides = e.sides[0], e.sides[1:]
}

// aside polls all but the first.
func (e *endpoint) aside(tries int) (did bool) {
	for _, l := range e.sides {
		did = l.Poll(tries) || did
	}
	return did
}

// Look looks at the first of the fabrics, which looks at the others now and then, and then at each of them. Those that are not looked at wake somebody.
func (e *endpoint) Look(woken <-chan struct{}, entered bool) {
	if e.eyes == nil {
		return
	}
	e.eyes.Look(woken, entered)
	for _, l := range e.sides {
		if len(woken) > 0 {
			return
		}
		l.Look(woken, false)
	}
}

// Seek looks for a frame where Look looks first.
func (e *endpoint) Seek(p fabric.Picker) (picked, tired bool) {
	if s, ok := e.eyes.(fabric.Seeker); ok {
		return s.Seek(p)
	}
	return false, false
}

// Enter says that the caller will look there.
func (e *endpoint) Enter() bool { return e.eyes != nil && e.eyes.Enter() }

// Leave takes that back.
func (e *endpoint) Leave() { e.eyes.Leave() }

// asideEvery is how many tries of a loop poll the first fabric only until one polls the others too, which cost more.
const asideEvery = 16

// Poll polls all, or in a loop the first one mostly.
func (e *endpoint) Poll(tries int) bool {
	if e.eyes == nil {
		return false
	}
	did := e.eyes.Poll(tries)
	if len(e.sides) > 0 && tries%asideEvery == 0 {
		did = e.aside(tries/asideEvery) || did
	}
	return did
}

// Drop passes on the loss of a peer.
func (e *endpoint) Drop(peer int, err error) {
	if uint(peer) >= uint(len(e.peers)) {
		return
	}
	if d, ok := e.peers[peer].(fabric.Dropper); ok {
		d.Drop(peer, err)
	}
}

// Shared returns the memory that a rank shares, if the fabric to it has such.
func (e *endpoint) Shared(rank int) ([]byte, error) {
	if uint(rank) < uint(len(e.peers)) {
		if s, ok := e.peers[rank].(fabric.Sharer); ok {
			return s.Shared(rank)
		}
	}
	return nil, fabric.ErrUnsupported
}

// Watch watches where Look looks first.
func (e *endpoint) Watch(ready func() bool) {
	if s, ok := e.eyes.(fabric.Sharer); ok {
		s.Watch(ready)
	}
}

func (e *endpoint) Rank() int                       { return e.rank }
func (e *endpoint) Size() int                       { return len(e.peers) }
func (e *endpoint) Caps(peer int) fabric.Caps       { return e.peers[peer].Caps(peer) }
func (e *endpoint) Local(peer int) fabric.Handler   { return e.peers[peer].Local(peer) }
func (e *endpoint) Forget(src int, key uint64) bool { return e.peers[src].Forget(src, key) }

func (e *endpoint) Bind(h fabric.Handler) {
	for _, p := range e.all {
		p.Bind(h)
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
