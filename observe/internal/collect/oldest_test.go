// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// keepOldest keeps the first tasks in the order of all.
func TestKeepOldest(t *testing.T) {
	for n := range 40 {
		var all, old []*live
		for i := range n {
			x := &live{id: uint64(i), spawned: rand.Int64N(10)}
			all = append(all, x)
			old = keepOldest(old, x, 12)
		}
		slices.SortFunc(all, func(a, b *live) int { return cmp.Or(cmp.Compare(a.spawned, b.spawned), cmp.Compare(a.id, b.id)) })
		require.Equal(t, all[:min(n, 12)], old)
	}
}
