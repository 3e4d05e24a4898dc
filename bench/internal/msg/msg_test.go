// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

func TestPeersAreRight(t *testing.T) {
	for _, load := range Workloads() {
		for _, peer := range load.Peers {
			for _, size := range []int64{8, 16, 4096, 200_000} {
				// 8: both numbers are the same bytes
				probe, err := peer.Open(t.Context(), harness.Params{Workers: 2, Ranks: 2, Size: size})
				require.NoError(t, err)
				for range 2 {
					v, err := probe.Sample(t.Context())
					require.NoError(t, err, "%s, %d bytes", peer.Name, size)
					require.Positive(t, v)
				}
				if probe.Close != nil {
					require.NoError(t, probe.Close())
				}
			}
		}
	}
}

func TestChecksCatchWrongMessages(t *testing.T) {
	p := newPingpong(100)
	p.reset()
	_, err := plainCopy(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, p.check())

	p.mine[1][50]++ // a byte in the middle, where there is no number
	require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)

	for _, at := range []int{0, 99} { // a message torn at either end
		p.reset()
		p.stamp(0, 7)
		copy(p.mine[1], p.mine[0])
		p.mine[1][at]++
		p.verify(1, 7)
		copy(p.mine[0], p.mine[1])
		require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
	}

	p.reset() // nothing sent at all
	require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
}
