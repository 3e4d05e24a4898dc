// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync"
	"unsafe"

	"weft/internal/shmem"
)

// windowResult is the largest block of a window that one rank combines.
const windowResult = windowSize/2 + elemMax

// partAt returns a part of the memory of a rank; nil if there is no such part.
func partAt(mem []byte, index int) *part {
	size := shmem.SizeOf[part]()
	if index < 0 || index >= MaxMapped || (index+1)*size > len(mem) {
		return nil
	}
	return shmem.View[part](mem, index*size)
}

// windowStart is where the window is in the memory of a rank: behind the parts, in pages of its
// own.
const windowStart = (MaxMapped*int(unsafe.Sizeof(part{})) + 4095) &^ 4095

// windowAt returns the window in the memory of a rank; an empty one if there is none.
func windowAt(mem []byte) window {
	if windowStart+windowSize+windowResult > len(mem) {
		return window{}
	}
	mem = mem[windowStart:]
	return window{mem[:windowSize:windowSize], mem[windowSize : windowSize+windowResult]}
}

// Indices are the parts that no communicator of a rank has.
type Indices struct {
	mu   sync.Mutex
	free uint64 // guarded by mu, as a set: nor may get
}

// World is the index of the communicator of all ranks.
const World = 0

// NewIndices returns all but World.
func NewIndices() *Indices { return &Indices{free: ^uint64(1 << World)} }

// Offer returns some for a communicator about to be made, as a set. No other one is offered them
// until they are given back.
func (x *Indices) Offer() (offer uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	const few = 4 // so that other communicators can be made at the same time
	for range few {
		offer |= x.free &^ offer & -(x.free &^ offer)
	}
	x.free &^= offer
	return offer
}

// GiveBack ends an offer.
func (x *Indices) GiveBack(offer uint64) {
	x.mu.Lock()
	x.free |= offer
	x.mu.Unlock()
}
