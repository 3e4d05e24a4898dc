//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import "sync"

const (
	// Width is how many collectives of one communicator may be under way at a rank; more wait for a
	// place.
	Width = 16
	// DataMax is how many bytes a place has room for.
	DataMax = 216
	// windowSize is how many bytes of all ranks are combined at a time: of 64 to 512 KiB the
	// fastest for 1 MiB, by little. elemMax is the size of the largest elements.
	stagingSize = 256 << 10
	elemMax     = 4 << 10
)

// watchFlat and watchLarge are how often a caller looks before it sleeps: about as long as it takes
// to be woken at another processor; while others copy for us, a little less. Guesses.
const (
	pollFlat       = 10000
	pollSpread     = 20000 // for one that has to be woken first
	pollLarge      = 8000
	// so many looks that found, one after the other, are a state that lasts
	steadyPolls    = 1000
	spreadInterval = 1 << 12 // wakes between two tries to be at two processors, at most
	yields         = 20      // where processors are scarce, others are let run instead
)

// signal wakes a caller. It is no xatomic.Chan, since lint mode is to see the order that it makes.
type signal chan struct{}

func (c signal) Send(v struct{}) { c <- v }
func (c signal) Recv()           { <-c }

var waiters = sync.Pool{New: func() any { return makeWaiter() }}

func newWaiter() *waiter { return waiters.Get().(*waiter) }

// free gives back a waiter to which nothing points any more.
func (w *waiter) free() {
	w.err, w.st, w.call = nil, nil, noCall
	waiters.Put(w)
}
