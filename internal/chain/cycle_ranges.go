// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// cut replaces the accesses of a cycle, some of which are ranges, by accesses to pieces of memory.
// It cuts the memory wherever an access begins or ends, so that two pieces are equal or do not
// overlap: then each piece is an object. The pieces of each task come out in the order of their
// addresses.
func cut(list []Access, ends []int32) (out []Access, outEnds []int32) {
	bounds := make([]uintptr, 0, 2*len(list))
	for _, x := range list {
		if x.ptr == nil && !x.isRange() {
			panicZero()
		}
		lo, hi := x.extent()
		bounds = append(bounds, lo, hi)
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)

	out, outEnds = make([]Access, 0, 2*len(list)), make([]int32, 0, len(ends))
	at := int32(0)
	for _, end := range ends {
		begin := len(out)
		for ; at < end; at++ {
			x := list[at]
			lo, hi := x.extent()
			k, _ := slices.BinarySearch(bounds, lo)
			for ; bounds[k] < hi; k++ {
				r := x.part(bounds[k], bounds[k+1])
				y := r.Access(x.mode)
				y.weak = x.weak
				out = append(out, y)
			}
		}
		slices.SortStableFunc(out[begin:], func(x, y Access) int { return cmp.Compare(addr(x.ptr), addr(y.ptr)) })
		outEnds = append(outEnds, int32(len(out)))
	}
	return out, outEnds
}

// firstEndingAfter returns the index of the first of accs, pieces of memory, that ends after at.
func firstEndingAfter(accs []Access, at uintptr) int {
	return sort.Search(len(accs), func(i int) bool {
		_, end := accs[i].extent()
		return end > at
	})
}

// pieces is Find for a task with pieces of memory.
func pieces(accs []Access, x Access) (from, to int, err error) {
	lo, hi := x.extent()
	if lo == hi {
		return 0, 0, nil
	}
	from = firstEndingAfter(accs, lo)
	to = from
	at := lo
	for i := from; i < len(accs) && at < hi; i++ {
		u := accs[i]
		begin, end := u.extent()
		if begin > at {
			break
		}
		if u.mode.order() != x.mode.order() || u.weak != x.weak {
			return 0, 0, fmt.Errorf("deps: Release of %v: the task has declared %s for bytes %d to %d of it", x, u.how, at-lo, min(end, hi)-lo)
		}
		if begin < lo {
			from = i + 1
		}
		if end <= hi {
			to = i + 1
		}
		at = end
	}
	if at < hi {
		return 0, 0, fmt.Errorf("deps: Release of %v: the task has not declared bytes %d to %d of it", x, at-lo, hi-lo)
	}
	return from, max(from, to), nil
}
