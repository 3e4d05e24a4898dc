//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

const (
	// ringSize is the memory of a ring in bytes.
	ringSize = 256 << 10
	// maxLag is from how many bytes on the consumer says how far it has come.
	maxLag = ringSize / 4
	// MaxFrame is the largest payload of a frame in bytes: four fit into a ring, whatever is in it.
	MaxFrame = ringSize/4 - 2*lineSize
	// piece is how much of a transfer goes through the ring at a time: an eighth of the ring, so
	// that both sides copy at once (16 and 64 KiB are slower by 5 to 20 %).
	piece = ringSize/8 - headSize

	// A ring is mapped as a whole when its two ranks meet if there are no more than allOfRing
	// ranks, else partOfRing bytes of it.
	allOfRing  = 32
	partOfRing = 16 << 10

	// sharedSize is the memory of a rank for the layers above. Pages that nobody uses cost nothing.
	sharedSize = 704 << 10
	pageSize   = 4096
)
