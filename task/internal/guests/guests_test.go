// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/task/internal/sched"
)

// A goroutine finds the entry that it has made last, and no entry of another goroutine.
func TestGuests(t *testing.T) {
	if sched.Goid() == 0 {
		t.Skip("goroutines are not distinguished on this machine")
	}
	var x Guests
	require.Nil(t, x.Find())
	require.Nil(t, x.Any())
	outer := x.Enter("outer", nil)
	inner := x.Enter("inner", t)
	require.Same(t, inner, x.Find())
	require.Equal(t, "inner", x.Find().Op)
	require.Same(t, t, x.Find().Task)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for range 20 {
				if x.Find() != nil {
					t.Error("another goroutine's entry")
				}
				a := x.Enter("a", nil)
				b := x.Enter("b", nil)
				if x.Find() != b {
					t.Error("not the last entry")
				}
				x.Leave(a) // in any order
				if x.Find() != b {
					t.Error("not the entry that is left")
				}
				x.Leave(b)
			}
		})
	}
	wg.Wait()
	require.NotNil(t, x.Any())
	x.Leave(inner)
	require.Same(t, outer, x.Find())
	x.Leave(outer)
	require.Nil(t, x.Find())
	require.Nil(t, x.Any())
}
