// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// commuter is a node with its own root and with Commutative accesses to some objects.
type commuter struct {
	root, node chain.Node
}

// start registers and reports whether c has its objects.
func (c *commuter) start(f *chain.Flow, accs ...chain.Access) bool {
	return c.root.Register(&c.node, accs, f) && (!c.node.Exclusive() || c.node.Acquire(f))
}

// Nodes of different domains exclude each other; each gets its objects once; when all are over the
// table is empty.
func TestExclusionAcrossDomains(t *testing.T) {
	var f chain.Flow
	objs := make([]int, 4000) // the tables grow
	cs := make([]commuter, len(objs)/2)
	for i := range cs {
		require.True(t, cs[i].start(&f, chain.Commutative(&objs[2*i]), chain.Commutative(&objs[2*i+1])))
	}
	require.Equal(t, len(objs), chain.Resources())
	late := make([]commuter, len(cs)-1)
	for i := range late {
		require.False(t, late[i].start(&f, chain.Commutative(&objs[2*i+1]), chain.Commutative(&objs[2*i+2])))
	}
	require.Nil(t, f.NextReady())
	for i := range cs {
		cs[i].node.Finish(&f)
		if n := f.NextReady(); i == 0 {
			require.Nil(t, n)
		} else {
			require.True(t, n == &late[i-1].node)
			require.False(t, n.Exclusive())
			n.Finish(&f)
			require.Nil(t, f.NextReady())
		}
	}
	require.Zero(t, chain.Resources())
}

// One task with very many objects, against others with one each.
func TestExclusionWide(t *testing.T) {
	var f chain.Flow
	objs := make([]int, 1000)
	var all []chain.Access
	for i := range objs {
		all = append(all, chain.Commutative(&objs[i]))
	}
	ones := make([]commuter, len(objs))
	for i := range ones {
		require.True(t, ones[i].start(&f, all[i]))
	}
	var wide, second commuter
	require.False(t, wide.start(&f, all...))
	require.False(t, second.start(&f, all...))
	for i := range ones {
		require.Nil(t, f.NextReady())
		ones[i].node.Finish(&f)
	}
	require.True(t, f.NextReady() == &wide.node)
	require.Nil(t, f.NextReady())
	wide.node.Finish(&f)
	require.True(t, f.NextReady() == &second.node)
	second.node.Finish(&f)
	require.Zero(t, chain.Resources())
}

// A node that needs many objects gets them despite an endless stream of nodes that need one each:
// it is overtaken only a bounded number of times.
func TestExclusionNobodyStarves(t *testing.T) {
	var f chain.Flow
	var objs [8]int
	var all []chain.Access
	for i := range objs {
		all = append(all, chain.Commutative(&objs[i]))
	}
	var running []*chain.Node // in the order of their starts
	spawn := func(accs ...chain.Access) *chain.Node {
		c := new(commuter)
		if c.start(&f, accs...) {
			running = append(running, &c.node)
		}
		return &c.node
	}
	for _, a := range all {
		spawn(a)
	}
	wide := spawn(all...)
	require.Equal(t, len(objs), len(running))
	for step := 0; ; step++ {
		require.Less(t, step, 100, "the wide task starves")
		n := running[0]
		running = running[1:]
		n.Finish(&f)
		for n := f.NextReady(); n != nil; n = f.NextReady() {
			running = append(running, n)
		}
		if slices.Contains(running, wide) {
			break
		}
		for _, a := range all { // some of them find the object free
			spawn(a)
		}
	}
	for len(running) > 0 {
		running[0].Finish(&f)
		running = running[1:]
		for n := f.NextReady(); n != nil; n = f.NextReady() {
			running = append(running, n)
		}
	}
	require.Zero(t, chain.Resources())
}

// Acquire is for nodes that need it, once; a node that ends without it is detected.
func TestAcquireMisuse(t *testing.T) {
	var f chain.Flow
	var x int
	var a, b, c commuter
	require.True(t, a.root.Register(&a.node, []chain.Access{chain.InOut(&x)}, &f))
	require.Panics(t, func() { a.node.Acquire(&f) })
	require.True(t, b.start(&f, chain.Commutative(&x)))
	require.Panics(t, func() { b.node.Acquire(&f) })
	b.node.Finish(&f)
	require.True(t, c.root.Register(&c.node, []chain.Access{chain.Commutative(&x)}, &f))
	require.True(t, c.node.Exclusive())
	require.PanicsWithValue(t, fmt.Sprintf("deps: object %p is given back by a node that does not hold it: it was started without Acquire", &x),
		func() { c.node.Finish(new(chain.Flow)) })
	var d commuter
	require.True(t, d.start(&f, chain.Commutative(&x)), "nothing is left locked")
	d.node.Finish(&f)
	require.Zero(t, chain.Resources())
}

// Goroutines with separate domains take random objects, in plain memory.
func TestHammerExclusion(t *testing.T) {
	const workers, rounds = 4, 2000
	var objs [6]int64
	var want [6]int64
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	granted := map[*chain.Node]bool{}
	var wg sync.WaitGroup
	for k := range workers {
		r := rand.New(rand.NewPCG(uint64(k), rand.Uint64()))
		var sum [6]int64
		wg.Go(func() {
			var f chain.Flow
			hand := func() {
				for n := f.NextReady(); n != nil; n = f.NextReady() {
					mu.Lock()
					granted[n] = true
					cond.Broadcast()
					mu.Unlock()
				}
			}
			for range rounds {
				var list []chain.Access
				var mine []int
				for range 1 + r.IntN(3) {
					i := r.IntN(len(objs))
					list = append(list, chain.Commutative(&objs[i]))
					mine = append(mine, i)
				}
				c := new(commuter)
				if !c.start(&f, list...) {
					mu.Lock()
					for !granted[&c.node] {
						cond.Wait()
					}
					delete(granted, &c.node)
					mu.Unlock()
				}
				for j, i := range mine {
					objs[i]++
					sum[i]++
					if j == 0 && r.IntN(4) == 0 && c.node.Release(list[0], &f) == nil {
						hand()
						mine = nil
						break
					}
				}
				c.node.Finish(&f)
				hand()
			}
			mu.Lock()
			defer mu.Unlock()
			for i, n := range sum {
				want[i] += n
			}
		})
	}
	wg.Wait()
	require.Equal(t, want, objs)
	require.Zero(t, chain.Resources())
	require.Empty(t, granted)
}

// Taking and giving back objects without contention allocates nothing.
func TestExclusionAllocs(t *testing.T) {
	var f chain.Flow
	var x, y, z int
	var root chain.Node
	var pool []*chain.Node
	one := []chain.Access{chain.Commutative(&x)}
	three := []chain.Access{chain.Commutative(&x), chain.Commutative(&y), chain.Commutative(&z)}
	alone := func() {
		for _, list := range [][]chain.Access{one, three} {
			if len(pool) == 0 {
				pool = append(pool, new(chain.Node))
			}
			n := pool[len(pool)-1]
			pool = pool[:len(pool)-1]
			if !root.Register(n, list, &f) || !n.Acquire(&f) {
				t.Fail()
			}
			n.Finish(&f)
			if n.Retire() {
				pool = append(pool, n)
			}
			for n := f.NextFree(); n != nil; n = f.NextFree() {
				pool = append(pool, n)
			}
		}
	}
	for range 100 {
		alone()
	}
	require.Zero(t, testing.AllocsPerRun(100, alone))
}
