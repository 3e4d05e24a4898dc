// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
)

// Each check notices a run in which a task was left out, ran twice or ran too early.
func TestChecksCatchWrongRuns(t *testing.T) {
	t.Run("independent", func(t *testing.T) {
		p := newIndependent(10)
		p.sequential()
		require.NoError(t, p.check())
		p.bodies[3]()
		require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
		p.reset()
		require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
	})
	t.Run("chains", func(t *testing.T) {
		p := newChains(640, 64)
		p.sequential()
		require.NoError(t, p.check())
		p.cells[9].version-- // a lost update
		require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
	})
	t.Run("readers", func(t *testing.T) {
		p := newReaders(64 * 9 * 3)
		p.reset()
		p.sequential()
		require.NoError(t, p.check())

		p.reset()
		p.read[5][2]() // before its writer
		p.sequential()
		require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
	})
	t.Run("blocks", func(t *testing.T) {
		p := newBlocks(4, blockSteps)
		p.reset()
		p.sequential()
		require.NoError(t, p.check())

		// The check notices any block that ran before the block to its north, west, east (of the
		// last step) or south.
		for _, late := range []int{-p.side, -1, 1, p.side} {
			p.reset()
			block := 2*p.side + 2
			for step := range blockSteps {
				p.each(func(i int) {
					switch {
					case step == 4 && late < 0 && i == block+late:
						// its body runs after the block's
					case step == 4 && late < 0 && i == block:
						p.bodies[block]()
						p.bodies[block+late]()
					case step == 4 && late > 0 && i == block:
						// the block runs after its neighbour's next step
					case step == 4 && late > 0 && i == block+late:
						p.bodies[block+late]()
						p.bodies[block]()
					default:
						p.bodies[i]()
					}
				})
			}
			require.ErrorIs(t, p.check(), harness.ErrWrongAnswer, "neighbour at %+d", late)
		}
	})
	t.Run("forkjoin", func(t *testing.T) {
		p := newForkjoin(10)
		p.reset()
		require.ErrorIs(t, p.check(), harness.ErrWrongAnswer)
		p.sequential()
		require.NoError(t, p.check())
		require.EqualValues(t, 55, p.result)
		require.EqualValues(t, 176, p.tasks()) // 177 calls
	})
}

// Every peer gives a right answer, repeatedly. With -race the test also proves that the peers in Go
// order their tasks.
func TestPeersAreRight(t *testing.T) {
	// otherwise libomp's threads spin after every sample, and the peer waits for them
	t.Setenv("KMP_BLOCKTIME", "0")
	kit := native.NewKit(os.DirFS("../../peers"))
	defer func() { require.NoError(t, kit.Close()) }()
	for _, load := range Workloads(kit) {
		for _, peer := range load.Peers {
			t.Run(load.Name+"/"+peer.Name, func(t *testing.T) {
				probe, err := peer.Open(t.Context(), harness.Params{Workers: 2, Ranks: 1, Size: load.Quick[0], Quick: true})
				if peer.Extra && errors.Is(err, harness.ErrSkipped) {
					t.Skip(err)
				}
				require.NoError(t, err)
				for range 5 {
					v, err := probe.Sample(t.Context())
					require.NoError(t, err)
					require.Positive(t, v)
				}
				if probe.Close != nil {
					require.NoError(t, probe.Close())
				}
			})
		}
	}
}

func TestSlowRowIsLeftOut(t *testing.T) {
	_, err := foreign(nil, native.Libgomp, "task/readers").Open(t.Context(), harness.Params{Workers: 1, Size: slowReaders + 1})
	require.ErrorIs(t, err, harness.ErrSkipped)
	require.ErrorContains(t, err, "square")
}
