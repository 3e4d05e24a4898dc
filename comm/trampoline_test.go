// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Callbacks that run callbacks nest as deep as the limit, and no deeper: what comes on top runs
// when there is room, in the order in which it came, with its own error. Then all is as before.
func TestTrampolineNests(t *testing.T) {
	for _, calls := range []int{1, depthLimit - 1, depthLimit, depthLimit + 1, 3 * depthLimit} {
		var tr trampoline
		depth, deepest := 0, 0
		var order []string
		var nest func(n int) *node
		nest = func(n int) *node {
			return &node{fn: func(err error) {
				depth++
				deepest = max(deepest, depth)
				order = append(order, fmt.Sprint(n, " ", err))
				if n+1 < calls {
					tr.run(nest(n+1), fmt.Errorf("%d", n+1))
				}
				depth--
			}}
		}
		tr.run(nest(0), errors.New("0"))
		require.Equal(t, min(calls, depthLimit), deepest)
		require.Len(t, order, calls)
		for n, got := range order {
			require.Equal(t, fmt.Sprintf("%d %d", n, n), got)
		}
		require.Zero(t, tr.active)
		require.Nil(t, tr.backlog, "nothing is kept")
	}
}

// What finds no room waits in the order in which it came, each list whole, and is not kept when it
// has run; a callback that panics takes none of the others with it.
func TestTrampolineBacklog(t *testing.T) {
	for _, panics := range []bool{false, true} {
		var tr trampoline
		tr.active = depthLimit - 1 // others are at it
		var order []int
		call := func(i int) *node { return &node{fn: func(error) { order = append(order, i) }} }
		var kept []deferred
		first := &node{fn: func(error) {
			for i := 1; i <= 5; i++ {
				list := call(10 * i)
				list.next = call(10*i + 1)
				tr.run(list, errTest)
			}
			kept = tr.backlog
			require.Empty(t, order, "there is no room")
			require.Len(t, kept, 5)
			if panics {
				panic("test")
			}
		}, next: call(1)}
		run := func() { tr.run(first, nil) }
		if panics {
			require.PanicsWithValue(t, "test", run)
		} else {
			run()
		}
		require.Equal(t, []int{1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51}, order)
		require.Equal(t, depthLimit-1, tr.active)
		require.Nil(t, tr.backlog)
		require.Equal(t, make([]deferred, 5), kept, "what has run is let go of")
		tr.run(call(2), nil)
		require.Equal(t, 2, order[len(order)-1])
		require.Equal(t, depthLimit-1, tr.active)
	}
}
