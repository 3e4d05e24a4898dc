// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Different keys have different words, or no word.
func TestProbeWords(t *testing.T) {
	seen := map[uint64]Key{}
	for _, ctx := range []uint64{0, 1<<32 | 2, 1<<32 | 4, 2<<32 | 2, 1023<<32 | 2, 1024<<32 | 2, 1<<32 | 1<<14<<1, 1<<32 | (1<<14-1)<<1} {
		for _, src := range []int{Wild, 0, 1, 1<<16 - 2, 1<<16 - 1} {
			for _, tag := range []int{Wild, 0, 1, 1<<22 - 2, 1<<22 - 1, 1<<31 - 1} {
				w := ProbeWord(ctx, src, tag)
				fits := ctx>>32 < 1024 && ctx&(1<<32-1) < 1<<15 && src < 1<<16-1 && tag < 1<<22-1
				require.Equal(t, fits, w != 0, "%#x %d %d", ctx, src, tag)
				if fits {
					key := Key{Ctx: ctx, Src: int32(src), Tag: int32(tag)}
					require.NotContains(t, seen, w, "%v", key)
					require.NotEqual(t, uint64(found), w)
					seen[w] = key
				}
			}
		}
	}
}
