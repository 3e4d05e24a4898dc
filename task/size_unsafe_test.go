// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A task fills whole cache lines, and what every task touches is in the first two.
func TestTaskSize(t *testing.T) {
	const line = 64
	var x Task
	require.Equal(t, uintptr(6*line), unsafe.Sizeof(x))
	require.Equal(t, uintptr(2*line), unsafe.Offsetof(x.accesses))
	require.GreaterOrEqual(t, unsafe.Offsetof(x.count), uintptr(4*line))
}

// Go's allocator does not align what is smaller (slab).
func TestTasksAreAligned(t *testing.T) {
	s := &slot{rt: new(Runtime)}
	for range 3 {
		x := s.refill()
		require.Zero(t, uintptr(unsafe.Pointer(x))%64)
		require.Zero(t, uintptr(unsafe.Pointer(x.next))%64)
	}
}
