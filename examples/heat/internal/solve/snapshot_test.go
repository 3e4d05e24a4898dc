// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/examples/heat/internal/snapshot"
	"weft/internal/event/oracle"
	"weft/rma"
	"weft/task"
	"weft/trace"
)

// countingWindow counts fences.
type countingWindow struct {
	*rma.Win
	fences *atomic.Int64
}

func (w countingWindow) Fence(a rma.Assert) error {
	w.fences.Add(1)
	return w.Win.Fence(a)
}

func (w countingWindow) Ifence(a rma.Assert) *comm.Request {
	w.fences.Add(1)
	return w.Win.Ifence(a)
}

// Every snapshot of every variant equals the sequential sweep after its number of steps, bit by
// bit, at the offsets of the header.
func TestSnapshotsEqualSequentialSweep(t *testing.T) {
	for _, variant := range conf.Variants {
		for _, ranks := range []int{1, 2, 3, 7} {
			for _, workers := range []int{1, 2, 4} {
				for _, steps := range []int{1, 6, 7} {
					t.Run(fmt.Sprintf("%s/ranks%d/workers%d/steps%d", variant, ranks, workers, steps), func(t *testing.T) {
						testSnapshots(t, variant, ranks, workers, steps)
					})
				}
			}
		}
	}
}

func testSnapshots(t *testing.T, variant string, ranks, workers, steps int) {
	l := grid.Round(20, 24, ranks, 3, 8)
	head := snapshot.Header{Layout: l, Freq: 2, Timesteps: steps, Snapshots: 1 + steps/2}
	regions := make([][]byte, ranks)
	var fences atomic.Int64
	rec := oracle.New(t)
	rt := task.New(task.Config{Workers: workers, Trace: (*trace.Recorder)(rec)})
	err := comm.Run(context.Background(), comm.Config{Ranks: ranks, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
		win, mem, err := rma.Allocate[byte](c, head.RegionBytes(c.Rank()))
		if err != nil {
			return err
		}
		regions[c.Rank()] = mem
		g := grid.New(l, c.Rank())
		g.Init(sources)
		s, err := New(Config{Comm: c, Runtime: rt, Grid: g, Kernel: kernel.Rows8, Variant: variant, Wins: 1})
		if err != nil {
			return err
		}
		save := NewSnapshot(countingWindow{win, &fences}, head)
		if err := s.Run(Plan{Steps: steps, Freq: 2, Save: save}); err != nil {
			return err
		}
		return win.Free()
	})
	require.NoError(t, err)
	require.NoError(t, rt.Close())
	require.EqualValues(t, 2*head.Snapshots*ranks, fences.Load(), "two fences per snapshot and rank")

	h, err := snapshot.Decode(regions[0])
	require.NoError(t, err)
	require.Equal(t, &head, h)
	for n := range head.Snapshots {
		want := sequential(l, 2*n)
		got := make([]float64, 0, l.Rows*l.Cols)
		for row := range l.Rows {
			rank, in := row/l.RankRows(), row%l.RankRows()
			for col := range l.Cols {
				at := h.Offset(rank, n, in/l.RowBlock, col/l.ColBlock) + (in%l.RowBlock*l.ColBlock+col%l.ColBlock)*8
				got = append(got, math.Float64frombits(binary.NativeEndian.Uint64(regions[rank][at:])))
			}
		}
		if d := grid.Compare(got, want); d != nil {
			t.Fatalf("snapshot %d: %v", n, d)
		}
	}
}
