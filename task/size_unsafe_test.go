// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A task fills whole cache lines. Every task touches two of them, the first and the third; a task
// with accesses touches the second, too. What children write is in another line than what their
// parent writes.
func TestTaskSize(t *testing.T) {
	const line = 64
	var x Task
	require.Equal(t, uintptr(5*line), unsafe.Sizeof(x))
	for _, at := range []uintptr{unsafe.Offsetof(x.fn), unsafe.Offsetof(x.run), unsafe.Offsetof(x.slot)} {
		require.Equal(t, uintptr(2), at/line)
	}
	require.Equal(t, uintptr(3*line), unsafe.Offsetof(x.outer))
	require.Equal(t, uintptr(4*line), unsafe.Offsetof(x.count))
}

// Tasks fill whole cache lines (fresh).
func TestTasksAreAligned(t *testing.T) {
	s := &slot{rt: new(Runtime)} // its pool is empty
	for range 3 {
		s.refill()
		for _, x := range s.free {
			require.Zero(t, uintptr(unsafe.Pointer(x))%64)
		}
		s.free = s.free[:0]
	}
}
