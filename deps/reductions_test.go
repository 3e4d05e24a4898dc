// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReductions compares random operations with a plain list: few reductions and many, of elements, slices and nothing.
func TestReductions(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		size := []int{8, 30, 600, 3000}[seed%4]
		v := make([]int32, size)
		var all []*Reduced // disjoint
		for i := 0; i < size; {
			k := min(rnd.IntN(4), size-i)
			all = append(all, NewSliceReduction(v[i:i+k], Sum[int32]()).Reduce().Reduced())
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
				In(&v[lo]), Slice(v[lo : lo+rnd.IntN(min(9, size-lo+1))]).In(), all[rnd.IntN(len(all))].access(), all[rnd.IntN(len(all))].InOut(),
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

// A list of accesses, of which one names memory that another one reduces, is refused, however long it is.
func TestVetReductions(t *testing.T) {
	for _, n := range []int{1, 3, 200} {
		v := make([]int, 2*n)
		var list []Access
		for i := range n {
			list = append(list, NewSliceReduction(v[2*i:2*i+2], Sum[int]()).Reduce())
		}
		list = append(list, list[0], Slice(v[:0]).In(), In(new(int)))
		require.Empty(t, VetReductions(list))
		require.Empty(t, VetReductions(objects(v)))
		for _, x := range []Access{In(&v[0]), In(&v[2*n-1]), Slice(v).InOut().Weak(), NewReduction(&v[n], Sum[int]()).Reduce()} {
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
