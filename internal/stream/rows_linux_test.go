// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Prefetches reach past the last row, where no memory may be mapped.
func TestRowsAtTheEndOfMemory(t *testing.T) {
	page := os.Getpagesize()
	n := (Least + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, n+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(mem)) }()
	require.NoError(t, syscall.Mprotect(mem[n:], syscall.PROT_NONE))
	mem[n-1] = 1
	for _, rows := range []int{1, n / line, n / page} {
		dst := aligned(n, 0)
		require.Equal(t, usable, Rows(dst, unsafe.Pointer(&mem[0]), rows, n/rows, n/rows))
		require.Equal(t, usable, dst[n-1] == 1)
	}
}
