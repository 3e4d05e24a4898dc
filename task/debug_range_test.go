// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Debug mode says nothing of ranges, nor of objects within ranges that the task or an ancestor has declared.
func TestDebugRanges(t *testing.T) {
	var w warnings
	rt := newTestRuntime(t, Config{Workers: 2, Debug: true, Logger: w.logger()})
	x := make([]int, 8)
	require.NoError(t, rt.Run(t.Context(), func(t *Task) error {
		for range 4 {
			labelled(t, "P", func(t *Task) error {
				labelled(t, "C", func(t *Task) error {
					t.Uses(deps.InOut(&x[2]))
					x[2]++
					return nil
				}, deps.InOut(&x[2]))
				labelled(t, "D", func(t *Task) error {
					t.Uses(deps.InOut(&x[3]), deps.Slice(x[2:4]).InOut())
					x[3]++
					return t.Release(deps.Slice(x[3:4]).InOut())
				}, deps.Slice(x[2:4]).InOut())
				labelled(t, "E", nothing, deps.Slice(x[2:2]).InOut())
				return nil
			}, deps.Slice(x[:4]).InOut().Weak())
		}
		// An object that is given up as a range.
		labelled(t, "F", func(t *Task) error {
			return t.Release(deps.Slice(x[5:6]).InOut())
		}, deps.InOut(&x[5]))
		return nil
	}))
	require.Equal(t, []int{0, 0, 4, 4, 0, 0, 0, 0}, x)
	require.Empty(t, w.take())
}
