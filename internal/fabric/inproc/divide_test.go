// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package inproc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/inproc"
)

// Division returns the parts that Divide was given, in the order of ranks. No part is empty, the
// last one is cut at n, and ranks beyond the sum are in parts of one rank.
func TestDivision(t *testing.T) {
	require.Nil(t, inproc.Division(t.Context(), 3))
	for _, row := range []struct {
		sizes []int
		n     int
		want  []int
	}{
		{nil, 3, []int{0, 1, 2, 3}},
		{[]int{3}, 3, []int{0, 3}},
		{[]int{2}, 3, []int{0, 2, 3}},
		{[]int{4}, 3, []int{0, 3}},
		{[]int{2, 3}, 5, []int{0, 2, 5}},
		{[]int{2, 3}, 4, []int{0, 2, 4}},
		{[]int{2, 3}, 6, []int{0, 2, 5, 6}},
		{[]int{0, -1, 2}, 4, []int{0, 1, 2, 4}},
		{[]int{2, 2}, 1, []int{0, 1}},
	} {
		require.Equal(t, row.want, inproc.Division(inproc.Divide(t.Context(), row.sizes...), row.n), "%v of %d", row.sizes, row.n)
	}
}

// Ranks of a part see the handlers of their own part only.
func TestPart(t *testing.T) {
	eps, err := inproc.New(5)
	require.NoError(t, err)
	for _, ep := range eps {
		ep.Bind(deaf{}, nil)
	}
	part := inproc.Part(eps, 1, 3)
	require.Len(t, part, 2)
	for i, ep := range part {
		require.Equal(t, 1+i, ep.Rank())
		for peer := range eps {
			require.Equal(t, peer == 1 || peer == 2, ep.Local(peer) != nil, "rank %d of %d", peer, 1+i)
			require.Equal(t, peer == 1 || peer == 2, ep.Caps(peer).SharedMemory, "rank %d of %d", peer, 1+i)
		}
	}
}
