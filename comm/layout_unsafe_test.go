// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/match"
	"weft/internal/fabric/inproc"
)

// The fields that are written for a message under a rank's lock are one cache line, and the fields
// that a sender reads of a receive for a request are few lines.
func TestCacheLines(t *testing.T) {
	eps, err := inproc.New(3)
	require.NoError(t, err)
	w := newWorld(t.Context(), Config{Ranks: 3}, eps)
	for _, p := range w.own {
		require.Zero(t, uintptr(unsafe.Pointer(&p.mu))%cacheLine)
	}
	buckets, ok := reflect.TypeFor[match.Matcher]().FieldByName("buckets")
	require.True(t, ok)
	require.EqualValues(t, cacheLine, unsafe.Sizeof(proc{}.mu)+buckets.Offset)
	require.LessOrEqual(t, unsafe.Offsetof(recvOp{}.entry), uintptr(3*cacheLine))
	w.end(ErrEnded)
}

// The compiler keeps a Buffer of four words in registers, and none of five.
func TestBufferInRegisters(t *testing.T) {
	require.EqualValues(t, 4*unsafe.Sizeof(uintptr(0)), unsafe.Sizeof(Buffer{}))
}
