// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/stream"
)

// StreamToBytes does what CopyToBytes does, whether or not the copy goes around the cache.
func TestStreamToBytes(t *testing.T) {
	const cells = 4 * stream.Least / 8
	m := make([]float64, cells)
	for i := range m {
		m[i] = float64(i)
	}
	for _, b := range []Buffer{
		{},
		Of(m[:0]), Of(m[:5]), Of(m[1:]),
		Of(m[3 : 3+stream.Least/8]),
		Vector(m, 3, 2, 5),
		Vector(m[1:], 64, 256, 300),
		Vector(m[1:], 64, 255, 300),
		Vector(m, cells/2, 1, 2),
		Vector(m, 2, cells/2, cells/2),
	} {
		want, got := make([]byte, 8*cells+16), make([]byte, 8*cells+16)
		for _, room := range []int{0, b.Bytes() / 2, max(0, b.Bytes()-1), b.Bytes(), b.Bytes() + 1} {
			for _, at := range []int{0, 8} {
				clear(want)
				clear(got)
				n := b.CopyToBytes(want[at:][:room], 0)
				require.Equal(t, n, b.StreamToBytes(got[at:][:room]))
				require.True(t, bytes.Equal(want, got))
			}
		}
	}
}
