// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// aligned returns n bytes that begin at bytes after the beginning of a cache line.
func aligned(n, at int) []byte {
	b := make([]byte, n+2*line)
	skip := int(-uintptr(unsafe.Pointer(&b[0]))%line) + at
	return b[skip : skip+n : skip+n]
}

func TestRows(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{1})
	for _, x := range []struct {
		rows, size, stride, at int
		legal                  bool
	}{
		{256, 2048, 16400, 0, true}, // a block of heat
		{64, 2048, 2048, 0, true},   // just enough
		{63, 2048, 2048, 0, false},
		{2048, 64, 72, 0, true}, // the shortest rows
		{2049, 64, 64, 0, true}, // a last batch of fewer rows
		{3, 128 << 10, 130 << 10, 0, true},
		{9, 65 << 10, 70001, 0, true},     // batches that are not full, rows that begin anywhere
		{2, 1<<20 - 64, 1 << 20, 0, true}, // rows of more than a batch
		{2, 1 << 20, 1 << 20, 0, false},   // Go's copy does that
		{256, 2048, 16400, 32, false},     // lines that two rows share
		{256, 2040, 16400, 0, false},
		{1, Least, Least, 0, true},
		{1, Least - 1, Least, 0, false},
		{1, Least + 1, Least + 1, 0, true},
		{1, Least + 63, Least + 63, 1, true},
		{1, Least, Least, 63, true},
		{1, 1<<20 - 1, 1 << 20, 40, true},
		{1, 1 << 20, 1 << 20, 0, false},
	} {
		t.Run(fmt.Sprintf("%d rows of %d of %d at %d", x.rows, x.size, x.stride, x.at), func(t *testing.T) {
			src := make([]byte, (x.rows-1)*x.stride+x.size)
			noise.Read(src)
			const fence = 2 * line
			all := aligned(x.rows*x.size+2*fence, x.at)
			noise.Read(all)
			want := bytes.Clone(all)
			did := Rows(all[fence:], unsafe.Pointer(&src[0]), x.rows, x.size, x.stride)
			require.Equal(t, usable && x.legal, did)
			if did {
				for r := range x.rows {
					copy(want[fence+r*x.size:], src[r*x.stride:][:x.size])
				}
			}
			require.True(t, bytes.Equal(want, all), "the rows and nothing else")
		})
	}
	short := make([]byte, Least-1)
	require.Panics(t, func() { Rows(short, unsafe.Pointer(&short[0]), 1, Least, Least) })
}

// A goroutine that is told of a copy sees all of it: the fence at the end of the assembly orders
// the copy before an ordinary store.
func TestHammerCopiesAreVisible(t *testing.T) {
	const size, rows = 2048, 64
	dst, src := aligned(rows*size, 0), make([]byte, rows*size)
	tell, back := make(chan byte), make(chan int)
	go func() {
		defer close(back)
		for want := range tell {
			back <- bytes.Count(dst, []byte{want})
		}
	}()
	for i := range 500 {
		copy(src, bytes.Repeat([]byte{byte(i)}, len(src)))
		if !Rows(dst, unsafe.Pointer(&src[0]), rows, size, size) {
			copy(dst, src)
		}
		tell <- byte(i)
		require.Equal(t, len(dst), <-back)
	}
	close(tell)
	<-back
}
