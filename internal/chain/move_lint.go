// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race && !explore

package chain

// In a build for package task's lint mode the race detector is not to see these lists, which the bodies of tasks that nothing orders change under locks. What
// the compiler makes of a loop it does not see; Go's own copy of values with pointers in them, it does.

// insertAt is slices.Insert for one element.
func insertAt[E any](s []E, i int, v E) []E {
	if len(s) == cap(s) {
		s = copyOf(s, max(4, 2*len(s)))
	}
	s = s[:len(s)+1]
	for k := len(s) - 1; k > i; k-- {
		s[k] = s[k-1]
	}
	s[i] = v
	return s
}

// removeAt is slices.Delete.
func removeAt[E any](s []E, i, j int) []E {
	k := i
	for ; j < len(s); j++ {
		s[k] = s[j]
		k++
	}
	clear(s[k:])
	return s[:k]
}

// copyOf returns the elements of s in an array for n.
func copyOf[E any](s []E, n int) []E {
	c := make([]E, len(s), n)
	for i := range s {
		c[i] = s[i]
	}
	return c
}
