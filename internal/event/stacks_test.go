// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers of stacks: the same for the same; a recursion comes back to the stack that it came from, by whatever way; others are told apart.
func TestNamesStack(t *testing.T) {
	var n Names
	main := n.Stack(0, []uintptr{1, 2})
	require.Equal(t, main, n.Stack(0, []uintptr{1, 2}))
	require.NotEqual(t, main, n.Stack(0, []uintptr{1}))
	root := n.Spec(Origin{Body: 1, Stack: main})
	origin := func(stack uint32) uint32 { return n.Spec(Origin{Label: "f", Body: 2, Stack: stack}) }

	a := n.Stack(root, []uintptr{10})
	fa := origin(a)
	aa := n.Stack(fa, []uintptr{20})
	faa := origin(aa)
	require.NotEqual(t, a, aa, "another place")
	require.Equal(t, aa, n.Stack(faa, []uintptr{20}), "once around")
	ab := n.Stack(faa, []uintptr{30})
	require.NotEqual(t, aa, ab)
	require.Equal(t, aa, n.Stack(origin(ab), []uintptr{20}), "around by two places")
	require.Equal(t, Stack{By: faa, PCs: []uintptr{30}}, n.StackOf(ab))
	require.Zero(t, n.StackOf(0))
	require.Zero(t, n.StackOf(1000))

	require.NotEqual(t, main, n.Stack(fa, []uintptr{1, 2}), "a run is no task's")
	require.Zero(t, n.Unstacked())
}

// There is a most; what was known before stays.
func TestNamesStackIsBounded(t *testing.T) {
	var n Names
	first := n.Stack(0, []uintptr{0})
	for i := range uintptr(mostStacks + 9) {
		n.Stack(0, []uintptr{i})
	}
	require.Equal(t, uint64(9), n.Unstacked())
	require.Zero(t, n.Stack(0, []uintptr{mostStacks + 5}))
	require.Equal(t, first, n.Stack(0, []uintptr{0}))
}

// Writers find the same numbers, by way of their caches or not.
func TestHammerStackCache(t *testing.T) {
	r, err := New(Options{Stacks: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i := range 2 {
		r.Names().Spec(Origin{Body: uintptr(1 + i)})
	}
	const writers, places = 4, 200
	got := make([][places]uint32, writers)
	var wg sync.WaitGroup
	for w := range writers {
		c := r.StackCache()
		wg.Go(func() {
			for range 20 {
				for i := range places {
					pcs := make([]uintptr, 1+i%(2*StackDepth))
					pcs[0] = uintptr(i)
					by := uint32(i % 3)
					id := c.Find(by, pcs[:min(len(pcs), StackDepth)])
					if id == 0 {
						id = c.Learn(by, pcs, pcs)
					}
					if got[w][i] != 0 && got[w][i] != id {
						t.Errorf("place %d has the numbers %d and %d", i, got[w][i], id)
					} else {
						got[w][i] = id
					}
				}
			}
		})
	}
	wg.Wait()
	seen := map[uint32]bool{}
	for i, id := range got[0] {
		require.Equal(t, id, got[1][i])
		require.False(t, seen[id])
		seen[id] = true
		require.LessOrEqual(t, len(r.Names().StackOf(id).PCs), StackDepth)
	}
}
