// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "math/bits"

// recentKeys is an approximate set of the keys that were put into it lately: has is true for these
// and for few others. It does not keep their objects alive. It is two Bloom filters with one hash
// function: when the newer one is full, the older one is dropped for a new one, twice as large up
// to a limit.
type recentKeys struct {
	now, before []uint64
	n           int // keys in now
}

const (
	recentMin = 64      // keys of the first filter (guess)
	recentMax = 1 << 14 // keys of the largest filter (guess: 32 KiB)
	// bits for each key: has is wrong for one of sixteen other keys, or fewer
	recentBits = 16
)

func (m *recentKeys) capacity() int { return len(m.now) * 64 / recentBits }

func (m *recentKeys) put(key uintptr) {
	if m.n == m.capacity() {
		size := min(max(recentMin, 2*m.n), recentMax)
		m.now, m.before = m.before, m.now
		if clear(m.now); m.capacity() != size {
			m.now = make([]uint64, size*recentBits/64)
		}
		m.n = 0
	}
	m.n++
	i := bitOf(m.now, key)
	m.now[i/64] |= 1 << (i % 64)
}

func (m *recentKeys) has(key uintptr) bool { return holds(m.now, key) || holds(m.before, key) }

// clear empties m, and frees its memory.
func (m *recentKeys) clear() {
	if m.n != 0 {
		*m = recentKeys{}
	}
}

func holds(b []uint64, key uintptr) bool {
	if len(b) == 0 {
		return false
	}
	i := bitOf(b, key)
	return b[i/64]>>(i%64)&1 != 0
}

// bitOf returns the bit of key in b, whose length is a power of two.
func bitOf(b []uint64, key uintptr) uint64 {
	h := uint64(key) * golden
	h = (h ^ h>>32) * golden
	return h >> (58 - bits.TrailingZeros(uint(len(b))))
}

// golden is 2^64 divided by the golden ratio. The fractions of its multiples are spread more evenly
// than those of any other number: the smallest distance among the first n is a good part of the
// mean distance.
const golden = 0x9E3779B97F4A7C15
