// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// Which modes two tasks may have at the same time, and which a task may grant to its descendants,
// by the table of package deps.
func TestModes(t *testing.T) {
	list := []Mode{chain.ModeIn, chain.ModeOut, chain.ModeInOut, chain.ModeConcurrent, chain.ModeCommutative, chain.ModeReduce}
	require.Len(t, kinds, len(list))
	require.Equal(t, "Mode(6)", Mode(len(kinds)).String(), "a mode has no row in kinds")
	clash := []string{".xxxx.", "xxxxx.", "xxxxx.", "xxx.x.", "xxxx..", "......"}
	grants := []string{"x....x", "xxxxxx", "xxxxxx", "...x.x", "xxxxxx", "xxxxxx"}
	weak := []string{"x....x", "xxxxxx", "xxxxxx", "...x.x", "....xx", "xxxxxx"}
	for i, a := range list {
		require.Equal(t, a != chain.ModeReduce, Waits(a), a)
		require.Equal(t, a != chain.ModeIn, Writes(a), a)
		for j, b := range list {
			require.Equal(t, clash[i][j] == 'x', Clash(a, b), "%v beside %v", a, b)
			require.Equal(t, grants[i][j] == 'x', Grants(a, false, b), "%v above %v", a, b)
			require.Equal(t, weak[i][j] == 'x', Grants(a, true, b), "weak %v above %v", a, b)
		}
	}
}
