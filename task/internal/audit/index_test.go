// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"math/rand/v2"
	"testing"

	"weft/internal/chain"

	"github.com/stretchr/testify/require"
)

// The index finds what a look at all uses finds, wherever they are and however long.
func TestUseIndexAgainstAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	parents := make([]Record, 4)
	for _, base := range []uintptr{1, 1 << 20, 1<<63 - 700, ^uintptr(0) - 3000} {
		var x useIndex
		live := map[*use]bool{}
		makeUse := func() *use {
			lo := base + uintptr(rnd.IntN(1500))
			return &use{rec: &Record{parent: &parents[rnd.IntN(len(parents))]}, lo: lo, hi: lo + 1 + uintptr(rnd.IntN(1<<rnd.IntN(11)))}
		}
		for range 4000 {
			if u := makeUse(); rnd.IntN(2) == 0 && len(live) < 60 {
				x.add(u)
				live[u] = true
			}
			for u := range live {
				if rnd.IntN(60) == 0 {
					x.remove(u)
					delete(live, u)
				}
			}
			asks, found := makeUse(), map[*use]bool{}
			require.False(t, x.each(asks, func(o *use) bool {
				require.False(t, found[o], "twice")
				found[o] = true
				return false
			}))
			for u := range live {
				require.Equal(t, u.rec.parent != asks.rec.parent && u.meets(asks), found[u], "%#x to %#x", u.lo, u.hi)
			}
			require.LessOrEqual(t, len(found), len(live))
			require.Equal(t, len(found) > 0, x.each(asks, func(*use) bool { return true }))
		}
	}
}

// Debug mode remembers so many objects of a run, and no more.
func TestObjectsThatAreRemembered(t *testing.T) {
	var c copies
	objects := make([]int, maxCopies+2)
	rec := &Record{label: "task"}
	for i := range objects {
		lo, hi, _ := chain.Object(&objects[i], chain.ModeIn).Memory()
		c.name(&use{rec: rec, lo: lo, hi: hi, access: chain.Object(&objects[i], chain.ModeIn)})
		require.Equal(t, min(i+1, maxCopies), c.objects.Len())
		require.Len(t, c.list, min(i+1, maxCopies))
	}
}
