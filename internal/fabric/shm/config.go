// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"cmp"
	"fmt"

	"weft/internal/fabric"
)

const (
	lineSize = 64                     // bytes of a cache line
	headSize = 8 + 8*fabric.HeadWords // bytes before a frame's data in a ring: first word and head
	// EagerLimit is the eager limit in bytes that this fabric recommends. Up to it, two copies cost
	// less than the offer, the copy by the kernel and the answer.
	EagerLimit = 16 << 10
	rankBits   = 14 // bits of a rank in the first word of a frame
	// MaxSize is the largest number of ranks: each has its ring in each inbox.
	MaxSize = 1 << rankBits
)

// Config configures an endpoint.
type Config struct {
	Rank int // of this endpoint
	Size int // number of ranks, including those of other nodes
	// Room is how many ranks the job may grow to; it is the same at all ranks. Zero means Size.
	Room int
	// Lookup returns the string that Addr of another rank's endpoint returned. It does not block.
	// It is called once for each rank, for the first frame to or from that rank.
	Lookup func(rank int) (string, error)

	// SingleCopy is the size in bytes from which a transfer is one copy by the kernel, from process
	// to process, where that is possible. Zero means env.DefaultSingleCopy; a negative number,
	// never.
	SingleCopy int
}

func (c *Config) check() error {
	c.Room = cmp.Or(c.Room, c.Size)
	switch {
	case c.Size < 1 || c.Size > MaxSize:
		return fmt.Errorf("%w: shm: %d ranks; 1 to %d are legal", fabric.ErrRank, c.Size, MaxSize)
	case c.Room < c.Size || c.Room > MaxSize:
		return fmt.Errorf("%w: shm: room for %d ranks; %d to %d are legal", fabric.ErrRank, c.Room, c.Size, MaxSize)
	case c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("%w: shm: rank %d of %d", fabric.ErrRank, c.Rank, c.Size)
	}
	return nil
}
