// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Commutative accesses of recorded tasks exclude each other, and their children: they are taken in
// the order of the loop.
func TestIterCommutative(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		const n, parts = 40, 5
		var x, y, seen int
		var order []int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(*Task) error { x++; return nil }, deps.Commutative(&x))
			t.Iterate(n, func(it *Iteration) error {
				for i := range parts {
					it.Spawn(func(t *Task) error {
						x++
						order = append(order, t.Iteration()*parts+i)
						switch i {
						case 1:
							t.Spawn(func(*Task) error { x++; return nil }, deps.Commutative(&x))
						case 2:
							end := t.Hold()
							go end(nil)
						case 3:
							y++
							return t.Release(deps.Commutative(&x))
						}
						return nil
					}, deps.Commutative(&x), deps.Commutative(&y))
				}
				it.Spawn(func(*Task) error { seen = seen*3 + x; return nil }, deps.In(&x))
				return nil
			}, deps.InOut(&x))
			t.Spawn(func(*Task) error { x++; return nil }, deps.Commutative(&x))
			return nil
		}))
		want, wantSeen := 1, 0
		for range n {
			want += parts + 1
			wantSeen = wantSeen*3 + want
		}
		require.Equal(t, want+1, x)
		require.Equal(t, n, y)
		require.Equal(t, wantSeen, seen)
		for i, k := range order {
			require.Equal(t, i, k)
		}
	}
}
