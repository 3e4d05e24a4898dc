// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Peers is the table of an endpoint's peers by rank, of which it is one itself. It grows and never
// shrinks: a peer that was dropped stays, as one that takes nothing. To read it takes no lock. The
// zero value is empty. Any goroutine may call anything.
type Peers[P any] struct {
	list atomic.Pointer[[]*P]

	mu     sync.Mutex
	closed bool // guarded by mu
}

// All returns the peers there are. The caller does not change them.
func (t *Peers[P]) All() []*P {
	if l := t.list.Load(); l != nil {
		return *l
	}
	return nil
}

// At returns a peer, nil if there is no such rank: see Missing.
func (t *Peers[P]) At(rank int) *P {
	if all := t.All(); uint(rank) < uint(len(all)) {
		return all[rank]
	}
	return nil
}

// Missing returns the error of a rank that there is not.
func (t *Peers[P]) Missing(rank int) error {
	return fmt.Errorf("%w: %d of %d", ErrRank, rank, len(t.All()))
}

// Grow makes peers of the ranks up to size that are none. make is called once for each, in order.
func (t *Peers[P]) Grow(size int, make func(rank int) *P) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := append([]*P(nil), t.All()...)
	switch {
	case t.closed:
		return ErrClosed
	case size < len(list):
		return fmt.Errorf("%w: %d ranks, of %d that there are; ranks are only added", ErrRank, size, len(list))
	}
	for rank := len(list); rank < size; rank++ {
		list = append(list, make(rank))
	}
	t.list.Store(&list)
	return nil
}

// Close keeps the table from growing, and returns it.
func (t *Peers[P]) Close() []*P {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.All()
}
