// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

// The check fails for a runtime that keeps its tasks until the end, and for a runtime that loses
// tasks.
func TestScaleWatchesTheHeap(t *testing.T) {
	p := newWatched(1000, 10)
	p.reset()
	p.lookups()
	require.NoError(t, p.check())

	var kept [][]byte
	p.reset()
	p.sequential()
	for range 4 {
		kept = append(kept, make([]byte, scaleHeap/3))
	}
	p.sampleHeap()
	require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
	require.ErrorContains(t, p.check(), "heap grew")
	require.Len(t, kept, 4)

	p.reset()
	require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
}

func TestScaleCoversWhatItIsMeantTo(t *testing.T) {
	loads := scale()
	require.Equal(t, []int64{1e3, 1e4, 1e5, 1e6, 1e7}, loads[0].Sizes)
	require.Equal(t, []int64{1e1, 1e2, 1e3, 1e4, 1e5, 1e6}, loads[1].Sizes)
	for _, l := range loads {
		for _, g := range l.Goals {
			require.True(t, g.Growth)
		}
	}
}
