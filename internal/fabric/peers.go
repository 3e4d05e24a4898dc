// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Peers is the table of an endpoint's peers by rank; the endpoint itself is in the table. The table
// grows and never shrinks: a dropped peer stays in it, and takes nothing. Reading takes no lock.
// The zero value is an empty table. Any goroutine may call any method.
type Peers[P any] struct {
	list atomic.Pointer[[]*P]

	mu     sync.Mutex
	closed bool // guarded by mu
}

// All returns the peers by rank. The caller does not change the slice.
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

// Missing returns the error for a rank that is not in the table.
func (t *Peers[P]) Missing(rank int) error {
	return fmt.Errorf("%w: %d of %d", ErrRank, rank, len(t.All()))
}

// Grow adds the ranks from the present size to size. It calls make once for each, in order.
func (t *Peers[P]) Grow(size int, make func(rank int) *P) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := append([]*P(nil), t.All()...)
	switch {
	case t.closed:
		return ErrClosed
	case size < len(list):
		return fmt.Errorf("%w: %d ranks, fewer than the present %d; ranks are only added", ErrRank, size, len(list))
	}
	for rank := len(list); rank < size; rank++ {
		list = append(list, make(rank))
	}
	t.list.Store(&list)
	return nil
}

// Close ends the growth of the table, and returns the peers.
func (t *Peers[P]) Close() []*P {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.All()
}
