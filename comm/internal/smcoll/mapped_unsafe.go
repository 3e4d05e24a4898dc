// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync"
	"unsafe"

	"weft/internal/shmem"
)

// windowResult is the largest block of a window that one rank combines.
const resultSize = stagingSize/2 + elemMax

// partAt returns a part of the memory of a rank; nil if there is no such part.
func rowAt(mem []byte, index int) *row {
	size := shmem.SizeOf[row]()
	if index < 0 || index >= MaxMapped || (index+1)*size > len(mem) {
		return nil
	}
	return shmem.View[row](mem, index*size)
}

// windowStart is where the window is in the memory of a rank: behind the parts, in pages of its
// own.
const stagingStart = (MaxMapped*int(unsafe.Sizeof(row{})) + 4095) &^ 4095

// windowAt returns the window in the memory of a rank; an empty one if there is none.
func stagingAt(mem []byte) stagingBuffer {
	if stagingStart+stagingSize+resultSize > len(mem) {
		return stagingBuffer{}
	}
	mem = mem[stagingStart:]
	return stagingBuffer{mem[:stagingSize:stagingSize], mem[stagingSize : stagingSize+resultSize]}
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
