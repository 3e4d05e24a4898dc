//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import "sync"

const (
	// Width is how many collectives of one communicator may be under way at a rank. Further ones
	// wait for a cell.
	Width = 16
	// DataMax is how many bytes of payload fit in a cell.
	DataMax = 216
	// stagingSize is how many bytes of the payload are combined in one round. Measured with sizes
	// from 64 to 512 KiB: this one is the fastest for 1 MiB, by little.
	stagingSize = 256 << 10
	// elemMax is the size in bytes of the largest elements that are combined by staging buffers.
	elemMax = 4 << 10
)

// Poll budgets: how often a caller checks whether its collective can proceed before it sleeps.
// Guesses.
const (
	pollFlat   = 10000 // about as long as it takes to wake a goroutine at another processor
	pollSpread = 20000 // in a collective for which another rank has to be woken first, see spread
	pollLarge  = 8000  // while other ranks copy for this one

	// So many successful polls in a row show that the ranks run at different processors.
	steadyPolls    = 1000
	spreadInterval = 1 << 12 // wakes between two tries to get to two processors, at most
	yields         = 20      // calls of Gosched instead of polls where processors are scarce
)

// signal wakes a caller. It is not an xatomic.Chan because lint mode has to see the order that the
// channel creates.
type signal chan struct{}

func (c signal) Send(v struct{}) { c <- v }
func (c signal) Recv()           { <-c }

var waiters = sync.Pool{New: func() any { return makeWaiter() }}

func newWaiter() *waiter { return waiters.Get().(*waiter) }

// free returns a waiter to the pool. Nothing points to it any more.
func (w *waiter) free() {
	w.err, w.st, w.call = nil, nil, noCall
	waiters.Put(w)
}
