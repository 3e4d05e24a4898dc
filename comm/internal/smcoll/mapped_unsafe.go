// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync"
	"unsafe"

	"weft/internal/shmem"
)

// resultSize is the size of the largest block that one rank combines in a round.
const resultSize = stagingSize/2 + elemMax

// rowAt returns a row in the memory of a rank; nil if there is no row of this index.
func rowAt(mem []byte, index int) *row {
	size := shmem.SizeOf[row]()
	if index < 0 || index >= MaxMapped || (index+1)*size > len(mem) {
		return nil
	}
	return shmem.View[row](mem, index*size)
}

// stagingStart is the offset of the staging buffer in the memory of a rank. The buffer is after the
// rows and shares no page with them.
const stagingStart = (MaxMapped*int(unsafe.Sizeof(row{})) + 4095) &^ 4095

// stagingAt returns the staging buffer in the memory of a rank; an empty one if there is none.
func stagingAt(mem []byte) stagingBuffer {
	if stagingStart+stagingSize+resultSize > len(mem) {
		return stagingBuffer{}
	}
	mem = mem[stagingStart:]
	return stagingBuffer{mem[:stagingSize:stagingSize], mem[stagingSize : stagingSize+resultSize]}
}

// Indices has the indices of a rank's rows that no communicator uses.
type Indices struct {
	mu   sync.Mutex
	free uint64 // guarded by mu: the set of those that are not offered either
}

// World is the row index of the communicator of all ranks.
const World = 0

// NewIndices returns the set of all indices but World.
func NewIndices() *Indices { return &Indices{free: ^uint64(1 << World)} }

// Offer returns a set of indices for a communicator about to be made. No other communicator is
// offered them until GiveBack.
func (x *Indices) Offer() (offer uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	const few = 4 // leaves some for communicators that are made at the same time
	for range few {
		offer |= x.free &^ offer & -(x.free &^ offer)
	}
	x.free &^= offer
	return offer
}

// GiveBack makes indices of an offer free again.
func (x *Indices) GiveBack(offer uint64) {
	x.mu.Lock()
	x.free |= offer
	x.mu.Unlock()
}
