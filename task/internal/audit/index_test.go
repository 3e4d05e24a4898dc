// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"math/rand/v2"
	"testing"

	"weft/internal/chain"

	"github.com/stretchr/testify/require"
)

// The index finds the same accesses as a comparison with all of them, at all addresses and lengths.
func TestAccessIndexAgainstAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	parents := make([]Record, 4)
	for _, base := range []uintptr{1, 1 << 20, 1<<63 - 700, ^uintptr(0) - 3000} {
		var x accessIndex
		live := map[*access]bool{}
		newAccess := func() *access {
			lo := base + uintptr(rnd.IntN(1500))
			return &access{rec: &Record{parent: &parents[rnd.IntN(len(parents))]}, lo: lo, hi: lo + 1 + uintptr(rnd.IntN(1<<rnd.IntN(11)))}
		}
		for range 4000 {
			if a := newAccess(); rnd.IntN(2) == 0 && len(live) < 60 {
				x.add(a)
				live[a] = true
			}
			for a := range live {
				if rnd.IntN(60) == 0 {
					x.remove(a)
					delete(live, a)
				}
			}
			query, found := newAccess(), map[*access]bool{}
			require.False(t, x.each(query, func(b *access) bool {
				require.False(t, found[b], "twice")
				found[b] = true
				return false
			}))
			for a := range live {
				require.Equal(t, a.rec.parent != query.rec.parent && a.meets(query), found[a], "%#x to %#x", a.lo, a.hi)
			}
			require.LessOrEqual(t, len(found), len(live))
			require.Equal(t, len(found) > 0, x.each(query, func(*access) bool { return true }))
		}
	}
}

// Debug mode remembers at most maxCopies objects of a run.
func TestMaxCopies(t *testing.T) {
	var c copies
	objects := make([]int, maxCopies+2)
	rec := &Record{label: "task"}
	for i := range objects {
		lo, hi, _ := chain.Object(&objects[i], chain.ModeIn).Memory()
		c.name(&access{rec: rec, lo: lo, hi: hi, decl: chain.Object(&objects[i], chain.ModeIn)})
		require.Equal(t, min(i+1, maxCopies), c.objects.Len())
		require.Len(t, c.list, min(i+1, maxCopies))
	}
}
