// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/grid"
)

func newTestHeader() *Header {
	return &Header{Layout: grid.Round(12, 10, 2, 3, 5), Snapshots: 4, Freq: 10, Timesteps: 35}
}

func TestHeaderRoundTrip(t *testing.T) {
	want := newTestHeader()
	b := want.Encode()
	require.Len(t, b, HeaderBytes)
	got, err := Decode(b)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Blocks of all snapshots fill the regions without gap or overlap.
func TestOffsetsTileTheRegions(t *testing.T) {
	h := newTestHeader()
	for rank, at := range []int{HeaderBytes, 0} {
		for s := range h.Snapshots {
			for r := range h.Layout.BlockRows() {
				for c := range h.Layout.BlockCols() {
					require.Equal(t, at, h.Offset(rank, s, r, c))
					at += h.Layout.BlockCells() * 8
				}
			}
		}
		require.Equal(t, at, h.RegionBytes(rank))
	}
}

func TestDecodeErrors(t *testing.T) {
	seal := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[headerLen:], crc32.ChecksumIEEE(b[:headerLen]))
		return b
	}
	set := func(field int, x uint64) []byte {
		b := newTestHeader().Encode()
		binary.LittleEndian.PutUint64(b[16+8*field:], x)
		return seal(b)
	}
	version := newTestHeader().Encode()
	version[8] = 2
	order := newTestHeader().Encode()
	order[12], order[15] = order[15], order[12]
	flipped := newTestHeader().Encode()
	flipped[20] ^= 1
	for want, b := range map[string][]byte{
		"0 bytes":                               nil,
		"it begins with":                        make([]byte, HeaderBytes),
		"version 2":                             version,
		"wrong checksum":                        flipped,
		"the other byte order":                  seal(order),
		"number 0 is 0":                         set(0, 0),
		"number 7 is 18446744073709551615":      set(7, 1<<64-1),
		"are not whole blocks":                  set(1, 11),
		"4 snapshots are not those of every 12": set(6, 12),
	} {
		_, err := Decode(b)
		require.ErrorIs(t, err, ErrHeader, want)
		require.ErrorContains(t, err, want)
	}
	big := &Header{Layout: grid.Round(1<<31, 1<<31, 1, 1, 1), Snapshots: 2, Freq: 1, Timesteps: 1}
	_, err := Decode(big.Encode())
	require.ErrorContains(t, err, "are too much")
}

// Decode returns for any bytes, and the offsets of a header that it accepts are in range.
func FuzzDecode(f *testing.F) {
	f.Add(newTestHeader().Encode()[:headerLen])
	f.Fuzz(func(t *testing.T, in []byte) {
		b := make([]byte, HeaderBytes)
		copy(b[:headerLen], in)
		binary.LittleEndian.PutUint32(b[headerLen:], crc32.ChecksumIEEE(b[:headerLen]))
		h, err := Decode(b)
		if err != nil {
			require.ErrorIs(t, err, ErrHeader)
			return
		}
		require.Positive(t, h.RegionBytes(0))
		last := h.Offset(0, h.Snapshots-1, h.Layout.BlockRows()-1, h.Layout.BlockCols()-1)
		require.Equal(t, h.RegionBytes(0), last+h.Layout.BlockCells()*8)
	})
}
