// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

type pair struct {
	_ uint64
	b uint32
}

// View returns a pointer to the given bytes, and panics if T does not fit there.
func TestView(t *testing.T) {
	mem := Heap(64)
	require.Equal(t, 16, SizeOf[pair]())
	v := View[pair](mem, 48)
	v.b = 1<<24 | 2
	require.EqualValues(t, []byte{2, 0, 0, 1}, mem[56:60])
	for _, off := range []int{-8, 49, 56, 64, 72} {
		require.Panics(t, func() { View[pair](mem, off) }, "%d", off)
	}
	require.PanicsWithValue(t, "shmem: byte 4 is not aligned to 8", func() { View[pair](mem, 4) })
	require.Panics(t, func() { View[struct{}](mem, 0) }, "it has no bytes")
	require.Panics(t, func() { View[byte](nil, 0) })
}

// Heap returns zero memory that begins at a cache line and has no extra capacity.
func TestHeap(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 4096, 100_001} {
		b := Heap(n)
		require.Len(t, b, n)
		require.Equal(t, n, cap(b))
		require.Equal(t, make([]byte, n), b)
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64)
	}
}
