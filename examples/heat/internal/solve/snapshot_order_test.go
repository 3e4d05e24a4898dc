// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package solve

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/examples/heat/internal/snapshot"
	"weft/rma"
	"weft/task"
)

// logWindow logs the displacements of puts, and copies nothing.
type logWindow struct{ put func(disp int) }

func (w logWindow) Put(_ comm.Buffer, _, disp int) error {
	w.put(disp)
	return nil
}

func (w logWindow) Fence(rma.Assert) error { return nil }

func (w logWindow) Ifence(rma.Assert) *comm.Request {
	r, complete := comm.NewRequest()
	complete(nil)
	return r
}

// With one worker, the task after the computation of a block that is to be saved is the block's
// put: no other task has used the cache between them.
func TestBlocksArePutWhenTheyAreComputed(t *testing.T) {
	const blocks, freq, steps = 8, 2, 5
	l := grid.Round(1536, 1536, 1, 1536/blocks, 1536/blocks)
	head := snapshot.Header{Layout: l, Freq: freq, Timesteps: steps, Snapshots: 1 + steps/freq}
	var mu sync.Mutex // there is one worker, but lint mode knows of declared orders only
	var log []string  // guarded by mu
	name := func(what string, n, r, c int) string {
		return fmt.Sprintf("%s block (%d,%d) of step %d", what, r, c, n)
	}
	times := map[kernel.Rect]int{} // guarded by mu
	compute := func(_ []float64, _ int, q kernel.Rect) {
		mu.Lock()
		defer mu.Unlock()
		times[q]++
		log = append(log, name("compute", times[q], (q.Row-1)/l.RowBlock, (q.Col-1)/l.ColBlock))
	}
	puts := map[int]string{0: "header"}
	for n := range head.Snapshots {
		for r := range blocks {
			for c := range blocks {
				puts[head.Offset(0, n, r, c)] = name("put", n*freq, r, c)
			}
		}
	}
	rt := task.New(task.Config{Workers: 1})
	defer func() { require.NoError(t, rt.Close()) }()
	err := comm.Run(context.Background(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		g := grid.New(l, 0)
		require.True(t, wantsOrder(g), "the matrix is larger than the cache")
		s, err := New(Config{Comm: c, Runtime: rt, Grid: g, Kernel: compute, Variant: conf.ITAMPI})
		if err != nil {
			return err
		}
		win := logWindow{func(disp int) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, puts[disp])
		}}
		return s.Run(Plan{Steps: steps, Freq: freq, Save: NewSnapshot(win, head)})
	})
	require.NoError(t, err)
	before := map[string]string{}
	for i, what := range log[1:] {
		before[what] = log[i]
	}
	for n := 1; n < head.Snapshots; n++ {
		for r := range blocks {
			for c := range blocks {
				require.Equal(t, name("compute", n*freq, r, c), before[name("put", n*freq, r, c)], "before it was put")
			}
		}
	}
	require.Len(t, log, 1+blocks*blocks*(head.Snapshots+steps))
}
