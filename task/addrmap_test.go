// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// An addrMap is Go's map, over random operations with many collisions.
func TestAddrMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m addrMap
	want := map[uintptr]int{}
	for i := range 20000 {
		key := uintptr(1 + r.IntN(1+i/100))
		switch r.IntN(3) {
		case 0:
			m.remove(key)
			delete(want, key)
		case 1:
			m.set(key, i)
			want[key] = i
		}
		got, _ := m.get(key).(int)
		require.Equal(t, want[key], got)
		require.Equal(t, len(want), m.n)
	}
	sum := 0
	for _, v := range want {
		sum += v
	}
	m.all(func(v any) bool { sum -= v.(int); return true })
	require.Zero(t, sum)
}
