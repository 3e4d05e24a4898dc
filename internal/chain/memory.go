// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"math/bits"
	"slices"

	"weft/internal/race"
)

// A memory knows which keys were put into it lately, and takes few others for one of these. It does
// not keep their objects alive. It is two Bloom filters with one hash function: when the newer one
// is full, the older one is given up for a new one, twice as large up to a limit.
type memory struct {
	now, before []uint64
	n           int // keys in now
}

const (
	memoryMin = 64      // keys of the first filter (guess)
	memoryMax = 1 << 14 // of the largest (guess: 32 KiB)
	// bits for each key: of the others, one of sixteen passes for one that was put, or fewer
	memoryBits = 16
)

func (m *memory) capacity() int { return len(m.now) * 64 / memoryBits }

func (m *memory) put(key uintptr) {
	if m.n == m.capacity() {
		size := min(max(memoryMin, 2*m.n), memoryMax)
		m.now, m.before = m.before, m.now
		if clear(m.now); m.capacity() != size {
			m.now = make([]uint64, size*memoryBits/64)
		}
		m.n = 0
	}
	m.n++
	i := bitOf(m.now, key)
	m.now[i/64] |= 1 << (i % 64)
}

func (m *memory) has(key uintptr) bool { return holds(m.now, key) || holds(m.before, key) }

// clear makes m forget, and keeps little memory.
func (m *memory) clear() {
	if m.n != 0 {
		*m = memory{}
	}
}

func holds(b []uint64, key uintptr) bool {
	if len(b) == 0 {
		return false
	}
	i := bitOf(b, key)
	return b[i/64]>>(i%64)&1 != 0
}

// bitOf returns the bit of key in b, which is a power of two long.
func bitOf(b []uint64, key uintptr) uint64 {
	h := uint64(key) * golden
	h = (h ^ h>>32) * golden
	return h >> (58 - bits.TrailingZeros(uint(len(b))))
}

// golden is 2^64 divided by the golden ratio. The fractions of its multiples are spread more evenly
// than those of any other number: the least distance of the first n is a good part of the mean.
const golden = 0x9E3779B97F4A7C15

// In a build for package task's lint mode the race detector is not to see lists that the bodies of
// tasks change under locks, since nothing orders these. What the compiler makes of a loop it does
// not see; Go's own copy of values with pointers in them, it does.

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
	//lint:ignore S1001 copy is seen
	for i := range s {
		c[i] = s[i]
	}
	return c
}
