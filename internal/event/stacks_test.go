// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Equal stacks have equal numbers, and different stacks different ones. A recursion returns to the
// stack from which it started, by any way.
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
	require.NotEqual(t, a, aa, "another line")
	require.Equal(t, aa, n.Stack(faa, []uintptr{20}), "once around")
	ab := n.Stack(faa, []uintptr{30})
	require.NotEqual(t, aa, ab)
	require.Equal(t, aa, n.Stack(origin(ab), []uintptr{20}), "around by two lines")
	require.Equal(t, Stack{By: faa, PCs: []uintptr{30}}, n.StackOf(ab))
	require.Zero(t, n.StackOf(0))
	require.Zero(t, n.StackOf(1000))

	require.NotEqual(t, main, n.Stack(fa, []uintptr{1, 2}), "a run is no task's")
	require.Zero(t, n.Unstacked())
}

// The number of stacks is bounded; stacks that were known before stay known.
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

// The table of known stacks is bounded as well, and each number keeps its stack.
func TestKnownStacksAreBounded(t *testing.T) {
	var n Names
	root := n.Spec(Origin{Body: 1})
	stack := n.Stack(root, []uintptr{10})
	for i := range 4*mostStacks + 5 {
		by := n.Spec(Origin{Body: uintptr(2 + i), Stack: stack})
		if n.Stack(by, []uintptr{10}) != stack {
			t.Fatalf("%d: a recursion has come to another stack", i)
		}
	}
	require.Len(t, n.stacks.list, 1)
	require.Len(t, n.stacks.ids, 4*mostStacks)
	require.Equal(t, Stack{root, []uintptr{10}}, n.StackOf(stack))
	require.Equal(t, Stack{}, n.StackOf(stack+1))
	require.Equal(t, stack, n.Stack(root, []uintptr{10}), "what is known stays")
	second := n.Stack(root, nil)
	require.Equal(t, stack+1, second)
	require.Equal(t, root, n.StackOf(second).By)
}

// The cache finds a stack by key and spawning origin until another stack takes the slot. Frames
// beyond StackDepth do not count.
func TestStackCache(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	rec.opt.Stacks = true
	c := rec.StackCache()
	require.Zero(t, c.Find(0, nil))
	key := []uintptr{1, 2, 3}
	require.Zero(t, c.Find(1, key))
	by := rec.Names().Spec(Origin{Body: 1})
	id := c.Learn(by, key, []uintptr{7, 8})
	require.Equal(t, id, c.Find(by, key))
	require.Equal(t, Stack{by, []uintptr{7, 8}}, rec.Names().StackOf(id))
	for _, other := range [][]uintptr{{1, 2}, {1, 2, 3, 4}, {1, 2, 4}, nil} {
		require.Zero(t, c.Find(by, other))
	}
	require.Zero(t, c.Find(by+1, key))
	// A slot with another key or origin does not match.
	s := c.slot(by, key)
	s.by++
	require.Zero(t, c.Find(by, key))
	s.by--
	s.key[0]++
	require.Zero(t, c.Find(by, key))

	long := make([]uintptr, StackDepth+3)
	for i := range long {
		long[i] = uintptr(100 + i)
	}
	id = c.Learn(by, long, long)
	require.Equal(t, Stack{by, long[:StackDepth]}, rec.Names().StackOf(id))
	require.Equal(t, id, c.Find(by, long[:StackDepth]))
}

// Keys that differ in one frame, or in the spawning origin, are spread over the cache.
func TestStackCacheSlots(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	rec.opt.Stacks = true
	for name, key := range map[string]func(i int) (by uint32, key []uintptr){
		"first":   func(i int) (uint32, []uintptr) { return 1, []uintptr{uintptr(i) << 4, 7} },
		"last":    func(i int) (uint32, []uintptr) { return 1, []uintptr{1<<20 - 1, uintptr(i) << 4} },
		"spawned": func(i int) (uint32, []uintptr) { return uint32(i), []uintptr{1<<20 - 1} },
	} {
		c := rec.StackCache()
		slots := map[*stackSlot]bool{}
		for i := range c.slots {
			slots[c.slot(key(i))] = true
		}
		require.Greater(t, len(slots), len(c.slots)/3, name)
	}
}

// All writers get the same numbers, from their caches or not.
func TestHammerStackCache(t *testing.T) {
	r, err := New(Options{Stacks: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i := range 2 {
		r.Names().Spec(Origin{Body: uintptr(1 + i)})
	}
	const writers, slots = 4, 200
	got := make([][slots]uint32, writers)
	var wg sync.WaitGroup
	for w := range writers {
		c := r.StackCache()
		wg.Go(func() {
			for range 20 {
				for i := range slots {
					pcs := make([]uintptr, 1+i%(2*StackDepth))
					pcs[0] = uintptr(i)
					by := uint32(i % 3)
					id := c.Find(by, pcs[:min(len(pcs), StackDepth)])
					if id == 0 {
						id = c.Learn(by, pcs, pcs)
					}
					if got[w][i] != 0 && got[w][i] != id {
						t.Errorf("stack %d has the numbers %d and %d", i, got[w][i], id)
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
