// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"weft/examples/heat/internal/grid"
)

const (
	// HeaderBytes is the size of the header: a page, so that the blocks after it are aligned.
	HeaderBytes = 4096
	// Version of the layout of header and snapshots.
	Version = 1

	magic     = "weftheat"
	cellBytes = 8
	headerLen = len(magic) + 4 + 4 + 8*8 // length without the checksum
	// maxExtent bounds each number in the header, and maxBytes their products, to prevent overflow.
	maxExtent = 1 << 31
	maxBytes  = 1 << 50
)

// ErrHeader is wrapped by all errors about headers.
var ErrHeader = errors.New("not the header of a heat window")

// Header describes the snapshots of a window.
//
// Encoding: the magic "weftheat"; 4 bytes version; 4 bytes 1 in the order of the machine's cells; 8
// bytes each: rows, columns, ranks, rows of a block, columns of a block, snapshots, steps between
// snapshots, time steps; 4 bytes CRC-32 (IEEE) of the bytes before it; zeros.
type Header struct {
	Layout    grid.Layout
	Snapshots int // how many the run makes, the initial state included
	Freq      int // steps from one to the next
	Timesteps int
}

// RegionBytes is the size of a rank's region.
func (h *Header) RegionBytes(rank int) int {
	return h.base(rank) + h.Snapshots*h.Layout.RankCells()*cellBytes
}

// base is the offset of a rank's first snapshot in its region.
func (h *Header) base(rank int) int {
	if rank == 0 {
		return HeaderBytes
	}
	return 0
}

// Offset is the offset of block (r, c) of a rank in the rank's region, in one of the snapshots.
func (h *Header) Offset(rank, snapshot, r, c int) int {
	l := h.Layout
	return h.base(rank) + (snapshot*l.RankCells()+(r*l.BlockCols()+c)*l.BlockCells())*cellBytes
}

// Encode returns the header's page.
func (h *Header) Encode() []byte {
	b := append(make([]byte, 0, HeaderBytes), magic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = binary.NativeEndian.AppendUint32(b, 1)
	for _, n := range h.numbers() {
		b = binary.LittleEndian.AppendUint64(b, uint64(*n))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return b[:HeaderBytes]
}

// Decode decodes a page, and checks everything on which later code relies.
func Decode(b []byte) (*Header, error) {
	if len(b) < HeaderBytes {
		return nil, fmt.Errorf("%w: %d bytes, at least %d are needed", ErrHeader, len(b), HeaderBytes)
	}
	if string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it begins with %q, not with %q", ErrHeader, b[:len(magic)], magic)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != Version {
		return nil, fmt.Errorf("%w: version %d, this program reads version %d", ErrHeader, v, Version)
	}
	if sum := crc32.ChecksumIEEE(b[:headerLen]); sum != binary.LittleEndian.Uint32(b[headerLen:]) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrHeader)
	}
	if binary.NativeEndian.Uint32(b[12:]) != 1 {
		return nil, fmt.Errorf("%w: written by a machine of the other byte order", ErrHeader)
	}
	h := &Header{}
	for i, n := range h.numbers() {
		x := binary.LittleEndian.Uint64(b[16+8*i:])
		if x < 1 || x > maxExtent || x > math.MaxInt {
			return nil, fmt.Errorf("%w: number %d is %d, legal is 1 to %d", ErrHeader, i, x, maxExtent)
		}
		*n = int(x)
	}
	return h, h.check()
}

// numbers are the fields in the order of their encoding.
func (h *Header) numbers() []*int {
	l := &h.Layout
	return []*int{&l.Rows, &l.Cols, &l.Ranks, &l.RowBlock, &l.ColBlock, &h.Snapshots, &h.Freq, &h.Timesteps}
}

// check checks that the numbers are consistent.
func (h *Header) check() error {
	l := h.Layout
	if round := grid.Round(l.Rows, l.Cols, l.Ranks, l.RowBlock, l.ColBlock); round != l {
		return fmt.Errorf("%w: %d x %d cells are not whole blocks of %d x %d on %d ranks",
			ErrHeader, l.Rows, l.Cols, l.RowBlock, l.ColBlock, l.Ranks)
	}
	if h.Snapshots != 1+h.Timesteps/h.Freq {
		return fmt.Errorf("%w: %d snapshots are not those of every %d of %d steps", ErrHeader, h.Snapshots, h.Freq, h.Timesteps)
	}
	if float64(l.Rows)*float64(l.Cols)*float64(h.Snapshots) > min(maxBytes, math.MaxInt)/cellBytes {
		return fmt.Errorf("%w: %d snapshots of %d x %d cells are too much", ErrHeader, h.Snapshots, l.Rows, l.Cols)
	}
	return nil
}
