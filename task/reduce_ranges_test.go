// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Reductions and ranges: a range that overlaps a reduced slice anywhere ends its group and waits
// for the combination; a disjoint range does neither.
func TestReduceRanges(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, first := range []string{"range", "reduction", "parent"} {
			v := make([]int, 40)
			r := deps.NewSliceReduction(v[10:30], deps.Sum[int]())
			var n notes
			add := func(t *Task) error {
				own := Local(t, r)
				for i := range own {
					own[i] += 2
				}
				return nil
			}
			body := func(t *Task) error {
				if first == "range" {
					t.Spawn(func(*Task) error { v[0]++; return nil }, deps.Slice(v[:12]).InOut())
				}
				for round := range 5 {
					for k := range 4 {
						t.Spawn(func(t *Task) error {
							if k%2 == 0 {
								t.Spawn(add, r.Reduce())
								return nil
							}
							return add(t)
						}, r.Reduce())
					}
					want := 8*(round+1) + round
					t.Spawn(func(*Task) error {
						for i := 25; i < 30; i++ {
							n.check(v[i] == want, "round %d: v[%d] is %d, not %d", round, i, v[i], want)
							v[i]++
						}
						for i := 10; i < 25; i++ {
							v[i]++
						}
						n.check(v[30] == round, "v[30] is %d", v[30])
						return nil
					}, deps.Slice(v[10:25]).InOut(), deps.Slice(v[25:35]).InOut())
					t.Spawn(func(*Task) error { v[30]++; return nil }, deps.Slice(v[30:40]).InOut())
				}
				t.Spawn(func(*Task) error { n.check(v[29] == 45, "v[29] is %d", v[29]); return nil }, deps.In(&v[29]))
				return nil
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				switch first {
				case "parent":
					t.Spawn(body, deps.Slice(v).InOut().Weak())
					t.Spawn(func(*Task) error { n.check(v[11] == 45, "outside: %d", v[11]); return nil }, deps.Slice(v[11:12]).In())
					return nil
				default:
					return body(t)
				}
			}))
			n.require(t)
			require.Equal(t, slices.Repeat([]int{45}, 20), v[10:30])
		}
	}
}

// The group of a slice stays open if ranges do not touch it, and Release of a part closes it.
func TestReduceRangesGroups(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	v := make([]int, 30)
	r, empty := deps.NewSliceReduction(v[10:20], deps.Sum[int]()), deps.NewSliceReduction(v[15:15], deps.Sum[int]())
	add := func(t *Task) error { Local(t, r)[0]++; return nil }
	var n notes
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Spawn(func(t *Task) error {
			t.Spawn(add, r.Reduce(), empty.Reduce())
			for _, a := range []deps.Access{deps.Slice(v[:10]).In(), deps.Slice(v[20:]).InOut(), deps.Slice(v[12:12]).In(), deps.In(&v[9]), deps.In(&v[20])} {
				t.Spawn(func(*Task) error { return nil }, a)
				if groupsOf(t.more).Len() != 2 {
					return errors.New("closed by " + a.String())
				}
			}
			for _, a := range []deps.Access{deps.Slice(v[:11]).In(), deps.Slice(v[19:]).In(), deps.In(&v[10]), deps.In(&v[19])} {
				t.Spawn(add, r.Reduce())
				t.Spawn(func(*Task) error { return nil }, a)
				if groupsOf(t.more).Len() != 1 {
					return errors.New("not closed by " + a.String())
				}
			}
			t.Spawn(add, r.Reduce())
			if err := t.Release(deps.Slice(v[5:12]).InOut()); err != nil {
				return err
			}
			if groupsOf(t.more).Len() != 1 {
				return errors.New("not closed by Release")
			}
			n.check(contains(panicOf(func() { t.Spawn(add, r.Reduce()) }), "given up by Release"), "a part is given up")
			n.check(contains(panicOf(func() { t.Spawn(add, r.Reduce(), deps.Slice(v[19:22]).In()) }), "given up"), "given up, and twice")
			return nil
		}, deps.Slice(v).InOut())
		t.Spawn(func(*Task) error { n.check(v[10] == 6, "v[10] is %d", v[10]); return nil }, deps.Slice(v[10:11]).In())
		t.Spawn(func(t *Task) error {
			n.check(contains(panicOf(func() { t.Spawn(add, r.Reduce(), deps.Slice(v[19:22]).In()) }), "only access of its task"), "twice")
			n.check(contains(panicOf(func() { t.Spawn(add, deps.Slice(v[:11]).Out(), r.Reduce()) }), "only access of its task"), "twice")
			return nil
		}, deps.Slice(v).InOut())
		// A participant in a domain of ranges.
		t.Spawn(func(t *Task) error {
			Local(t, r)[0]++
			n.check(contains(panicOf(func() { t.Spawn(add, deps.Slice(v[19:22]).In()) }), "its parent reduces"), "below")
			n.check(t.Release(r.Reduce().Weak()) != nil, "Release of another strength")
			return t.Release(r.Reduce())
		}, r.Reduce())
		return nil
	}))
	n.require(t)
	require.Equal(t, 7, v[10])
}
