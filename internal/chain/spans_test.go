// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// flatSpans is a spans as an array of all addresses: 0 is a gap.
type flatSpans []int

// checkSpans checks the invariants of m and compares it with flat.
func checkSpans(t *testing.T, m *spans[int], flat flatSpans) {
	t.Helper()
	n := 0
	end := uintptr(0)
	got := make(flatSpans, len(flat))
	for p := (cursor{}); m.has(p); p = m.next(p) {
		s := m.at(p)
		require.Less(t, s.lo, s.hi)
		require.GreaterOrEqual(t, s.lo, end)
		end = s.hi
		for x := s.lo; x < s.hi; x++ {
			got[x] = s.v
		}
		n++
	}
	require.Equal(t, n, m.n)
	require.Equal(t, flat, got)
	for _, l := range m.leaves {
		require.NotEmpty(t, l)
		require.LessOrEqual(t, len(l), leafMax)
	}
}

// TestSpans compares random operations with an array.
func TestSpans(t *testing.T) {
	for _, size := range []int{20, 300, 5000} {
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 5))
			m := new(spans[int])
			flat := make(flatSpans, size)
			for step := range 400 {
				lo := r.IntN(size)
				hi := lo + 1 + r.IntN(min(size-lo, 1+size/(1+r.IntN(50))))
				a, b := uintptr(lo), uintptr(hi)
				switch v := step + 1; r.IntN(7) {
				case 0:
					m.replace(a, b, v)
					for i := lo; i < hi; i++ {
						flat[i] = v
					}
				case 1: // many small ones, upwards or downwards
					for k := range 100 {
						i := (lo + k) % size
						if v%2 == 0 {
							i = (lo + size - k%size) % size
						}
						m.replace(uintptr(i), uintptr(i+1), v+k)
						flat[i] = v + k
					}
				case 2: // only gaps
					m.fill(a, b, func(s *span[int], isNew bool) {
						require.Equal(t, isNew, s.v == 0)
						if isNew {
							s.v = v
						}
					})
					for i := lo; i < hi; i++ {
						if flat[i] == 0 {
							flat[i] = v
						}
					}
				case 3: // existing spans
					for p := m.search(a); m.has(p) && m.at(p).lo < b; p = m.next(p) {
						p = m.narrow(p, a, b)
						require.True(t, m.at(p).lo >= a && m.at(p).hi <= b)
						m.at(p).v += 7
					}
					for i := lo; i < hi; i++ {
						if flat[i] != 0 {
							flat[i] += 7
						}
					}
				case 4:
					at := lo
					m.walk(a, b, func(lo, hi uintptr, v *int) {
						require.Equal(t, uintptr(at), lo)
						for ; at < int(hi); at++ {
							if v == nil {
								require.Zero(t, flat[at])
							} else {
								require.Equal(t, flat[at], *v)
							}
						}
					})
					require.Equal(t, hi, at)
				case 5:
					some := false
					for i := lo; i < hi; i++ {
						some = some || flat[i] != 0
					}
					require.Equal(t, some, m.meets(a, b))
				case 6:
					if step%4 == 0 {
						drop := r.IntN(3)
						m.tidy(func(s *span[int]) bool { return s.v%3 != drop }, func(a, b *int) bool { return *a == *b })
						for i, x := range flat {
							if x%3 == drop {
								flat[i] = 0
							}
						}
						require.False(t, m.crowded() && m.n > tidyMin)
						for p := (cursor{}); m.has(p) && m.has(m.next(p)); p = m.next(p) {
							s, q := m.at(p), m.at(m.next(p))
							require.False(t, s.hi == q.lo && s.v == q.v, "equal neighbours")
						}
					}
				}
				if step%20 == 0 || size < 100 {
					checkSpans(t, m, flat)
				}
			}
			checkSpans(t, m, flat)
		}
	}
}

// TestSpansGrow: spans that come in the order of their addresses fill the arrays.
func TestSpansGrow(t *testing.T) {
	m := new(spans[int])
	const n = 100 * leafMax
	for i := range uintptr(n) {
		m.replace(2*i, 2*i+1, int(i))
	}
	require.Equal(t, n, m.n)
	require.Len(t, m.leaves, n/leafMax)
	m.replace(0, 2*n, 1)
	require.Equal(t, 1, m.n)
	require.Len(t, m.leaves, 1)
	for range 3 { // empty, and used again
		m.tidy(func(*span[int]) bool { return false }, func(a, b *int) bool { return false })
		require.Zero(t, m.n)
		require.False(t, m.has(m.search(0)))
		m.replace(5, 6, 1)
		m.replace(7, 8, 2)
		flat := make(flatSpans, 10)
		flat[5], flat[7] = 1, 2
		checkSpans(t, m, flat)
	}
}
