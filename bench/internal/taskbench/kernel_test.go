// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComputeIsWhatItSays(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 100} {
		var want float64
		for _, x := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8} {
			for range n {
				x = float64(x*0.75) + 0.25
			}
			want += x
		}
		require.InDelta(t, want, compute(n), 1e-12, n)
	}
	require.InDelta(t, 8, compute(1000), 1e-9, "it converges: no number gets small")
}

// Every iteration copies a block to the same offset in the other half. A step continues where the
// step before stopped.
func TestMoveGoesRound(t *testing.T) {
	const blocks = 4
	for step := range 3 {
		memory := make([]byte, 2*blocks*memoryBlock)
		for i := range memory[:blocks*memoryBlock] {
			memory[i] = byte(i/memoryBlock) + 1
		}
		move(3, step, memory)
		for b := range blocks {
			want := byte(0)
			if (b-3*step%blocks+blocks)%blocks < 3 { // one of the three from where the step begins
				want = byte(b) + 1
			}
			for _, at := range []int{b * memoryBlock, (b+1)*memoryBlock - 1} {
				require.Equal(t, want, memory[blocks*memoryBlock+at], "step %d block %d", step, b)
			}
		}
	}
}

func TestImbalance(t *testing.T) {
	k, err := Kernel{Kind: Imbalanced, Imbalance: 0.5}.normalize()
	require.NoError(t, err)
	var sum, least, most int64
	least = 1 << 60
	for step := range 100 {
		for p := range 100 {
			n := k.iterations(1000, step, p)
			sum += n
			least, most = min(least, n), max(most, n)
			require.Equal(t, n, k.iterations(1000, step, p), "the same in every run")
		}
	}
	require.InDelta(t, 1000, float64(sum)/1e4, 10)
	require.InDelta(t, 750, float64(least), 2)
	require.InDelta(t, 1250, float64(most), 2)
	even := Kernel{Kind: Compute}
	require.EqualValues(t, 1000, even.iterations(1000, 3, 4))
}

func TestKernelErrors(t *testing.T) {
	for _, c := range []struct {
		Kernel
		says string
	}{
		{Kernel{Kind: "busy"}, "empty, compute, memory, imbalanced"},
		{Kernel{Kind: Imbalanced, Imbalance: 2.5}, "0 to 2"},
		{Kernel{Kind: Memory, Scratch: 1000}, "multiple of 2048"},
		{Kernel{Kind: Memory, Scratch: -2048}, "multiple of 2048"},
	} {
		_, err := c.normalize()
		require.ErrorContains(t, err, c.says)
	}
	for name, want := range map[string]Kind{"compute": Compute, "compute_bound": Compute, "memory_bound": Memory, "load_imbalance": Imbalanced, "empty": Empty} {
		k, err := ParseKind(name)
		require.NoError(t, err)
		require.Equal(t, want, k)
	}
	_, err := ParseKind("nothing")
	require.ErrorContains(t, err, "imbalanced")
}
