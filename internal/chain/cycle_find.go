// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"slices"
)

// The uses of a task are in the order of its list, in the first numbers of cycles, while they are few. More than
// scanMax are in the order of their addresses, and pieces of memory always are, so that one is found in logarithmic time.

// Find returns the numbers, from lo to hi (without hi), of the accesses of a task that x is made of, which must be declared in just
// this mode and strength, as Release demands. In a cycle of ranges these are the pieces that are wholly inside x.
func (c *Cycle) Find(task int, x Access) (lo, hi int, err error) {
	uses := c.Accesses(task)
	if c.ranged {
		return pieces(uses, x)
	}
	if x.isRange() && x.size() == 0 {
		return 0, 0, nil
	}
	i := -1
	if !x.isRange() {
		i = findUse(uses, x)
	}
	if i < 0 {
		return 0, 0, fmt.Errorf("deps: Release of %v: the task has not declared an access to this object", x)
	}
	if u := uses[i]; u.mode.order() != x.mode.order() || u.weak != x.weak {
		return 0, 0, fmt.Errorf("deps: Release of %v: the task has declared %v", x, u)
	}
	return i, i + 1, nil
}

// findUse returns which of uses is to the object of x; -1 if none is.
func findUse(uses []Access, x Access) int {
	if len(uses) <= scanMax {
		return slices.IndexFunc(uses, func(u Access) bool { return u.ptr == x.object() })
	}
	i, ok := slices.BinarySearchFunc(uses, addr(x.object()), func(u Access, at uintptr) int { return cmp.Compare(addr(u.ptr), at) })
	if !ok {
		return -1
	}
	return i
}

// Meeting returns numbers, from lo to hi (without hi), among which are those of all accesses of a task that x meets.
func (c *Cycle) Meeting(task int, x Access) (lo, hi int) {
	uses := c.Accesses(task)
	switch {
	case c.ranged:
		from, to := x.extent()
		lo, _ = slices.BinarySearchFunc(uses, from, func(u Access, at uintptr) int {
			if _, end := u.extent(); end <= at {
				return -1
			}
			return 1
		})
		hi, _ = slices.BinarySearchFunc(uses, to, func(u Access, at uintptr) int { return cmp.Compare(addr(u.ptr), at) })
		return lo, max(lo, hi)
	case x.isRange(): // the objects may overlap
		return 0, len(uses)
	}
	if i := findUse(uses, x); i >= 0 {
		return i, i + 1
	}
	return 0, 0
}
