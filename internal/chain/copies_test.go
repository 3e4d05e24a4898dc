// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// tally counts the copies that a reduction group uses.
func tally(used *atomic.Int32) chain.Op[int64] {
	return chain.Op[int64]{
		Init:    func(p *int64) { *p = 0; used.Add(1) },
		Combine: func(into, from *int64) { *into += *from },
	}
}

// Take returns a copy that was given back, in whatever shard it lies, and a new copy only if there
// is none.
func TestCopiesAreUsedAgain(t *testing.T) {
	var x int64
	var used atomic.Int32
	r := chain.NewReduction(&x, tally(&used))
	g := r.Open(8)
	a, b := g.Take(0, nil), g.Take(0, nil)
	require.NotSame(t, a, b)
	*chain.Private[int64](a), *chain.Private[int64](b) = 1, 10
	g.Give(3, a)
	require.Same(t, a, g.Take(6, nil), "from another shard")
	g.Give(6, a)
	g.Give(2, b)
	require.Same(t, b, g.Take(2, nil), "the own shard is first")
	g.Give(1, b)
	require.Equal(t, 2, g.Used())
	require.EqualValues(t, 2, used.Load())
	g.Combine(0, 1)
	g.Close()
	require.EqualValues(t, 11, x)

	// The next group has the same memory, without contributions.
	g = r.Open(8)
	require.Zero(t, g.Used())
	c := g.Take(5, nil)
	require.True(t, c == a || c == b)
	require.Zero(t, *chain.Private[int64](c))
	g.Give(5, c)
	require.Equal(t, 1, g.Used(), "what is not used is not combined")
	other := r.Open(8) // while the first is open
	require.NotSame(t, g, other)
	d := other.Take(0, nil)
	require.True(t, d != a && d != b)
	other.Give(0, d)
	other.Combine(0, 1)
	other.Close()
	g.Combine(0, 1)
	g.Close()
	require.EqualValues(t, 11, x)
}

// Participants on several goroutines keep one or several copies. Each copy has one owner at a time,
// no contribution is lost, and there are never more copies than participants at one time.
func TestCopiesHammer(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		var x int64
		var used atomic.Int32
		r := chain.NewReduction(&x, tally(&used))
		workers := []int{1, 2, 4, 40}[round%4]
		total := int64(0)
		for range 3 { // reduction groups
			g := r.Open(workers)
			used.Store(0)
			var active, most atomic.Int32
			var wg sync.WaitGroup
			for w := range 2 + round%5 {
				rnd := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				wg.Go(func() {
					var mine []*chain.Copy
					give := func() {
						i := rnd.IntN(len(mine))
						g.Give(rnd.IntN(50), mine[i])
						mine[i] = mine[len(mine)-1]
						mine = mine[:len(mine)-1]
						active.Add(-1)
					}
					for range 100 {
						n := active.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						c := g.Take(w, nil)
						*chain.Private[int64](c)++ // the race detector sees two owners
						mine = append(mine, c)
						if rnd.IntN(8) == 0 {
							runtime.Gosched()
						}
						for len(mine) > 0 && rnd.IntN(len(mine)+1) > 0 {
							give()
						}
					}
					for len(mine) > 0 {
						give()
					}
				})
				total += 100
			}
			wg.Wait()
			require.LessOrEqual(t, used.Load(), most.Load(), "copies, and participants at one time")
			require.EqualValues(t, used.Load(), g.Used())
			g.Combine(0, 1)
			g.Close()
			require.Equal(t, total, x)
		}
	}
}

// A copy whose Init panics does not belong to the group.
func TestCopiesInitPanics(t *testing.T) {
	var x int64
	bad := true
	r := chain.NewReduction(&x, chain.Op[int64]{
		Init: func(p *int64) {
			*p = 1000
			if bad {
				panic("no memory")
			}
			*p = 0
		},
		Combine: func(into, from *int64) { *into += *from },
	})
	g := r.Open(2)
	require.PanicsWithValue(t, "no memory", func() { g.Take(0, nil) })
	bad = false
	c := g.Take(0, nil)
	*chain.Private[int64](c)++
	g.Give(0, c)
	g.Combine(0, 1)
	g.Close()
	require.EqualValues(t, 1, x)
}

// Copies that a reduction group has not needed stay for the next group, together with those that it
// has used; none of them twice.
func TestCopiesOfReductionGroups(t *testing.T) {
	var x int64
	r := chain.NewReduction(&x, chain.Sum[int64]())
	all := map[*chain.Copy]bool{}
	for round, n := range []int{3, 1, 1, 2, 1, 3, 2, 3} {
		g := r.Open(4)
		mine := map[*chain.Copy]bool{}
		for i := range n {
			var early *chain.Copy
			c := g.Take(i, func(c *chain.Copy) { early = c })
			require.Same(t, c, early, "it is told before the copy is made ready")
			require.False(t, mine[c], "two owners")
			mine[c], all[c] = true, true
			*chain.Private[int64](c)++
		}
		i := 0
		for c := range mine {
			g.Give(i, c)
			i++
		}
		require.Equal(t, n, g.Used())
		g.Combine(0, 1)
		g.Close()
		require.Len(t, all, 3, "round %d", round)
	}
	require.EqualValues(t, 16, x)
}

// Goroutines open and close groups of one reduction at the same time, as two runtimes do. A group
// belongs to one of them at a time, and none is lost, so there are no more groups than goroutines.
func TestReductionGroupsHammer(t *testing.T) {
	const goroutines, rounds = 4, 3000
	var x int64
	r := chain.NewReduction(&x, chain.Sum[int64]())
	var mu sync.Mutex
	open, all := map[*chain.ReductionGroup]bool{}, map[*chain.ReductionGroup]bool{}
	var twice atomic.Int32
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				g := r.Open(2)
				mu.Lock()
				if open[g] {
					twice.Add(1)
				}
				open[g], all[g] = true, true
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				delete(open, g)
				mu.Unlock()
				g.Close()
			}
		})
	}
	wg.Wait()
	require.Zero(t, twice.Load(), "two owners")
	require.LessOrEqual(t, len(all), goroutines)
}
