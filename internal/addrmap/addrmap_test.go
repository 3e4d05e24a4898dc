// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package addrmap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Map is Go's map, over random operations with many collisions.
func TestMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m Map
	want := map[uintptr]int{}
	for i := range 20000 {
		key := uintptr(1 + r.IntN(1+i/100))
		switch r.IntN(3) {
		case 0:
			m.Remove(key)
			delete(want, key)
		case 1:
			m.Set(key, i)
			want[key] = i
		}
		got, _ := m.Get(key).(int)
		require.Equal(t, want[key], got)
		require.Equal(t, len(want), m.Len())
	}
	sum := 0
	for _, v := range want {
		sum += v
	}
	m.All(func(v any) bool { sum -= v.(int); return true })
	require.Zero(t, sum)
}
