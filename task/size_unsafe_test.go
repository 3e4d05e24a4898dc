// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A task fills whole cache lines, and what every task touches is in two of them.
func TestTaskSize(t *testing.T) {
	const line = 64
	var x Task
	require.Equal(t, uintptr(5*line), unsafe.Sizeof(x))
	require.Equal(t, uintptr(3*line), unsafe.Offsetof(x.fn))
	require.Equal(t, uintptr(4*line), unsafe.Offsetof(x.pc))
	require.GreaterOrEqual(t, unsafe.Offsetof(x.count), uintptr(2*line))
}

// Tasks fill whole cache lines (fresh).
func TestTasksAreAligned(t *testing.T) {
	s := &slot{rt: new(Runtime)} // whose pool is empty
	for range 3 {
		s.refill()
		for _, x := range s.free {
			require.Zero(t, uintptr(unsafe.Pointer(x))%64)
		}
		s.free = s.free[:0]
	}
}
