// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReductions compares random operations with a plain list: few and many reductions, of
// elements, slices and empty slices.
func TestReductions(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		size := []int{8, 30, 600, 3000}[seed%4]
		v := make([]int32, size)
		var all []*Reduced // disjoint
		for i := 0; i < size; {
			k := min(rnd.IntN(4), size-i)
			all = append(all, NewSliceReduction(v[i:i+k], Sum[int32]()))
			i += max(k, 1)
		}
		var l Reductions[*Reduced]
		var plain []*Reduced
		drop := func(r *Reduced) {
			plain = slices.DeleteFunc(plain, func(x *Reduced) bool { return x == r })
		}
		for step := range 3000 {
			r := all[rnd.IntN(len(all))]
			adds := 8
			if step/500%2 == 1 {
				adds = 3 // it shrinks
			}
			if rnd.IntN(10) < adds && !slices.Contains(plain, r) {
				l.Add(r, r)
				plain = append(plain, r)
			}
			lo := rnd.IntN(size)
			a := []Access{
				In(&v[lo]), Slice(v[lo : lo+rnd.IntN(min(9, size-lo+1))]).In(), all[rnd.IntN(len(all))].Access(), all[rnd.IntN(len(all))].InOut(),
			}[rnd.IntN(4)]
			var but *Reduced
			if rnd.IntN(2) == 0 {
				but = a.Reduced()
			}
			var want, got []*Reduced
			for _, x := range plain {
				if x.Meets(a) {
					want = append(want, x)
				}
			}
			for x := range l.AllMeeting(a) {
				got = append(got, *x)
			}
			require.ElementsMatch(t, want, got)
			want = slices.DeleteFunc(want, func(x *Reduced) bool { return x == but })
			x := l.Meeting(a, but)
			require.Equal(t, len(want) > 0, x != nil)
			require.True(t, x == nil || slices.Contains(want, *x))
			switch rnd.IntN(8) {
			case 0:
				x, ok := l.TakeMeeting(a, but)
				require.Equal(t, len(want) > 0, ok)
				require.True(t, !ok || slices.Contains(want, x))
				drop(x)
			case 1:
				x, ok := l.TakeFirst()
				require.Equal(t, len(plain) > 0, ok)
				require.True(t, !ok || x == plain[0])
				drop(x)
			case 2:
				if rnd.IntN(300) == 0 {
					l.Clear()
					plain = nil
				}
			}
			found := l.Find(r)
			require.Equal(t, slices.Contains(plain, r), found != nil)
			require.True(t, found == nil || *found == r)
			require.Equal(t, len(plain), l.Len())
			got = nil
			for x := range l.All() {
				got = append(got, *x)
			}
			require.True(t, slices.Equal(plain, got), "the order")
		}
		for l.Len() > 0 {
			l.TakeFirst()
		}
		require.LessOrEqual(t, cap(l.all), keptReductions, "an empty list keeps little")
	}
}

// A list in which one access names memory that another one reduces is refused, however long it is.
func TestVetReductions(t *testing.T) {
	for _, n := range []int{1, 3, 200} {
		v := make([]int, 2*n)
		var list []Access
		for i := range n {
			list = append(list, NewSliceReduction(v[2*i:2*i+2], Sum[int]()).Access())
		}
		list = append(list, list[0], Slice(v[:0]).In(), In(new(int)))
		require.Empty(t, VetReductions(list))
		require.Empty(t, VetReductions(objects(v)))
		for _, x := range []Access{In(&v[0]), In(&v[2*n-1]), Slice(v).InOut().Weak(), NewReduction(&v[n], Sum[int]()).Access()} {
			for _, at := range []int{0, n, len(list)} {
				require.Contains(t, VetReductions(slices.Insert(slices.Clone(list), at, x)), "only access of its task", "%v at %d of %d", x, at, n)
			}
		}
	}
}

func objects(v []int) (list []Access) {
	for i := range v {
		list = append(list, InOut(&v[i]))
	}
	return list
}

// A reduction group has a shard for each worker, rounded up to a power of two, but at most
// maxShards. A reduction keeps a bounded number of its copies.
func TestReductionGroups(t *testing.T) {
	for workers, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 4, 8: 8, 9: 16, 16: 16, 17: 16, 1000: 16} {
		g := NewReduction(new(int), Sum[int]()).Open(workers)
		require.Len(t, g.shards, want, "%d workers", workers)
		require.Equal(t, want-1, g.mask)
	}
	r := NewReduction(new(int), Sum[int]())
	for _, n := range []int{1, maxClean - 1, maxClean, maxClean + 1, 2 * maxClean} {
		g := r.Open(2)
		var list []*Copy
		for range n {
			list = append(list, g.Take(0, nil))
		}
		for i, c := range list {
			g.Give(i, c)
		}
		g.Combine(0, 1)
		g.Close()
		require.Len(t, g.clean, min(n, maxClean))
		require.Same(t, g, r.Open(2))
		r.kept.groups = append(r.kept.groups, g)
	}
}

// The methods that a runtime uses.
func TestReducedForRuntimes(t *testing.T) {
	var x [4]int
	one, slice := NewReduction(&x[1], Sum[int]()), NewSliceReduction(x[2:3], Sum[int]())
	for r, at := range map[*Reduced]*int{one: &x[1], slice: &x[2]} {
		require.Contains(t, runtime.FuncForPC(r.Site()-1).Name(), "TestReducedForRuntimes")
		require.Equal(t, Concurrent(at), r.Concurrent())
		require.Equal(t, InOut(at), r.InOut())
		require.True(t, r.Meets(In(at)) && !r.Meets(In(&x[3])))
		require.Equal(t, 1, r.Len())
	}

	// In one list the engine itself accepts a reduction twice and refuses anything else.
	var root Node
	twice := one.Access()
	require.True(t, root.Register(new(Node), []Access{twice, twice}, new(Flow)))
	require.PanicsWithValue(t, fmt.Sprintf("deps: a task accesses object %p as Reduce and as In; a reduction is the only access of its task to the object", &x[1]),
		func() { root.Register(new(Node), []Access{twice, twice, In(&x[1])}, new(Flow)) })
	require.PanicsWithValue(t, fmt.Sprintf("deps: a task takes part in two reductions of object %p; a reduction is the only access of its task to the object", &x[1]),
		func() { root.Register(new(Node), []Access{twice, NewReduction(&x[1], Sum[int]()).Access()}, new(Flow)) })
}

// Join is called for each participant, in domains of objects and of ranges, and may refuse it.
func TestJoin(t *testing.T) {
	var x, y int
	mem := make([]int, 4)
	a, b := NewReduction(&x, Sum[int]()), NewReduction(&y, Sum[int]())
	for _, ranged := range []bool{false, true} {
		var root Node
		f := Flow{}
		if ranged {
			require.True(t, root.Register(new(Node), []Access{Slice(mem).In()}, &f))
		}
		var told []Access
		why := ""
		f.Join = func(parent, child *Node, r Access) string {
			require.Same(t, &root, parent)
			require.NotNil(t, child)
			told = append(told, r)
			return why
		}
		list := []Access{a.Access(), In(&mem[0]), b.Access().Weak()}
		require.True(t, root.Register(new(Node), list, &f))
		require.Equal(t, []Access{list[0], list[2]}, told)
		told = nil
		require.True(t, root.Register(new(Node), []Access{In(&mem[1])}, &f))
		require.Empty(t, told)
		why = "not now"
		require.PanicsWithValue(t, "deps: not now", func() { root.Register(new(Node), list, &f) })
		f.Join = nil
		require.True(t, root.Register(new(Node), list, &f))
		require.Panics(t, func() { root.Register(new(Node), []Access{a.Access(), InOut(&x)}, &f) })
	}
}
