// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node is removed from any position of a list, and the others stay.
func TestRemove(t *testing.T) {
	for out := range 4 {
		var l List
		var nodes [3]*Node
		for i := range nodes {
			nodes[i] = &Node{Ch: make(chan struct{}, 1)}
			require.True(t, l.Push(nodes[i]))
		}
		if out < 3 {
			require.True(t, l.Remove(nodes[out]))
		} else {
			require.True(t, l.Remove(&Node{}), "a node that is not in the list")
		}
		NewSet(1).Tell(l.Close(), nil)
		for i, n := range nodes {
			require.Len(t, n.Ch, map[bool]int{true: 1}[i != out])
		}
		require.False(t, l.Remove(nodes[0]), "the list is complete")
		require.False(t, l.Push(nodes[0]))
	}
}

// A request can be completed only once.
func TestCloseTwice(t *testing.T) {
	var l List
	require.Nil(t, l.Close())
	require.True(t, l.Done())
	require.PanicsWithValue(t, "comm: bug: an operation was completed twice", func() { l.Close() })
	_, ok := l.Take()
	require.False(t, ok)
}
