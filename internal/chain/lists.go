// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"slices"

	"weft/internal/race"
)

// In a build for package task's lint mode the race detector must not see lists that the bodies of
// tasks change under locks, since these locks order nothing for the detector. It does not see loops
// that the compiler generates here, but it does see Go's own copy of values with pointers. So in
// such builds lists are copied element by element.

// insertAt is slices.Insert for one element.
func insertAt[E any](s []E, i int, v E) []E {
	if !race.Lint {
		return slices.Insert(s, i, v)
	}
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
	if !race.Lint {
		return slices.Delete(s, i, j)
	}
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
	if !race.Lint {
		return append(make([]E, 0, n), s...)
	}
	c := make([]E, len(s), n)
	//lint:ignore S1001 the race detector sees copy
	for i := range s {
		c[i] = s[i]
	}
	return c
}
