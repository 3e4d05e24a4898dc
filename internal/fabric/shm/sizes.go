//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

const (
	// ringSize is the size of a ring in bytes.
	ringSize = 256 << 10
	// maxLag is the number of bytes after which the consumer publishes its position.
	maxLag = ringSize / 4
	// MaxFrame is the largest payload of a frame in bytes: four such frames fit into a ring, at any
	// position.
	MaxFrame = ringSize/4 - 2*lineSize
	// piece is how many bytes of a transfer one frame carries: an eighth of the ring, so that both
	// sides copy at once (16 and 64 KiB are slower by 5 to 20 %).
	piece = ringSize/8 - headSize

	// When two ranks connect, all pages of their ring are mapped if there are at most allOfRing
	// ranks; otherwise the first partOfRing bytes.
	allOfRing  = 32
	partOfRing = 16 << 10

	// sharedSize is the size in bytes of a rank's memory for the layers above. Unused pages cost
	// nothing.
	sharedSize = 704 << 10
	pageSize   = 4096
)
