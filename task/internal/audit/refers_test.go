// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Go puts the heap at a random address. A reference is found at low addresses too, and a length is
// not taken for one.
func TestReferencesWhereverTheHeapIs(t *testing.T) {
	for _, base := range []uintptr{0x14_c000_0000, 0x3f_0000_0000, 0xc0_0000_0000, 0x7ab0_0000_0000} {
		x := named{lo: base + 4096, words: []uintptr{base, 8, 8}}
		require.True(t, x.refers(), "%#x", base)
		x.words[0] = base + 1<<30
		require.True(t, x.refers(), "%#x", base)
		for _, w := range []uintptr{0, 8, 1 << 20, 0x5a_0000, base + 3, base + 1<<39, 0x3ff0_0000_0000_0000} {
			x.words[0] = w
			require.False(t, x.refers(), "%#x: %#x", base, w)
		}
	}
	x := named{lo: 0x5a_0000, words: []uintptr{0x5b_0000, 8, 8}}
	require.False(t, x.refers(), "it is not in the heap")
}
