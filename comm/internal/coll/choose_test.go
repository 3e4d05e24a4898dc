// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Which algorithm runs a collective by messages, at each size and number of ranks at which the
// algorithm changes, at one less, and at one more.
func TestAlgorithmBySize(t *testing.T) {
	for _, x := range []struct {
		k       Kind
		unit, n int
		want    string
	}{
		{Barrier, 0, 2, "dissemination"}, {Barrier, 0, 100, "dissemination"},
		{Bcast, LargeCast - 1, 3, "tree"}, {Bcast, LargeCast, 3, "ring"}, {Bcast, LargeCast + 1, 3, "ring"}, {Bcast, LargeCast, 2, "tree"}, {Bcast, LargeCast, 4, "ring"},
		{Reduce, 1, 2, "tree"}, {Reduce, 1 << 30, 9, "tree"},
		{Allreduce, LargeSum - 1, 2, "doubling"}, {Allreduce, LargeSum, 2, "halves"}, {Allreduce, LargeSum + 1, 9, "halves"},
		{Scan, 1, 2, "doubling"}, {Scan, 1 << 30, 9, "doubling"},
		{Gather, SmallPart, 4, "direct"}, {Gather, SmallPart - 1, 5, "tree"}, {Gather, SmallPart, 5, "tree"}, {Gather, SmallPart + 1, 5, "direct"},
		{Scatter, SmallPart, 4, "direct"}, {Scatter, SmallPart - 1, 5, "tree"}, {Scatter, SmallPart, 5, "tree"}, {Scatter, SmallPart + 1, 5, "direct"},
		{Allgather, SmallPart, 2, "direct"}, {Allgather, SmallPart - 1, 3, "doubling"}, {Allgather, SmallPart, 3, "doubling"}, {Allgather, SmallPart + 1, 3, "direct"},
		{Alltoall, SmallPart / 4, 4, "direct"}, {Alltoall, SmallPart/4 - 1, 5, "bits"}, {Alltoall, SmallPart / 4, 5, "bits"}, {Alltoall, SmallPart/4 + 1, 5, "direct"},
	} {
		require.Equal(t, x.want, new(Chosen).Algorithm(x.k, x.unit, x.n).Name, "%s of %d bytes by %d ranks", Names[x.k], x.unit, x.n)
		for i, a := range Algorithms[x.k] {
			var all Chosen
			all[x.k] = uint8(i + 1)
			require.Equal(t, a.Name, all.Algorithm(x.k, x.unit, x.n).Name, "whatever the size is")
		}
	}
}
