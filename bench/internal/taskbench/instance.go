// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"sync"

	"weft/bench/internal/harness"
)

// A tile is the output of a task: the step and point that wrote it. It fills a cache line, so two
// tiles never share a line. Tasks write plain fields. Two tasks that a system fails to order lose
// an update or see a wrong origin, and the race detector reports them.
type tile struct {
	step, point int64   // of the task that has written it last
	value       float64 // the result of its kernel
	runs        int64   // how many tasks have written it in this run
	work        int64   // iterations of their kernels
	_           [24]byte
}

// An instance is a graph with the memory that its tasks use.
type instance struct {
	graph  *Graph
	kernel Kernel
	tiles  [2][]tile // step t writes tiles[t%2]
	// for each tile, if the kernel wants any; for each worker where they are more than the points
	memory [2][][]byte

	iterations int64 // of this run

	mu    sync.Mutex
	wrong error // the error of the first task that found something wrong
}

func newInstance(g *Graph, k Kernel, workers int) *instance {
	in := &instance{graph: g, kernel: k}
	for b := range in.tiles {
		in.tiles[b] = make([]tile, g.Width)
		in.memory[b] = make([][]byte, max(g.Width, workers))
		if k.Kind != Memory {
			continue
		}
		for p := range in.memory[b] {
			in.memory[b][p] = make([]byte, k.Scratch)
		}
	}
	return in
}

// reset prepares a run.
func (in *instance) reset(iterations int64) {
	in.iterations, in.wrong = iterations, nil
	for b := range in.tiles {
		for p := range in.tiles[b] {
			in.tiles[b][p] = tile{step: -1, point: -1}
		}
	}
}

// output returns the tile that the task at (t, p) writes.
func (in *instance) output(t, p int) *tile { return &in.tiles[t&1][p] }

// execute is the body of the task at (t, p).
func (in *instance) execute(t, p int) {
	s := in.graph.steps[t]
	self := &s.points[p-s.first]
	before := in.tiles[(t+1)&1]
	if len(self.inputs) != len(self.needs) {
		in.fail(harness.Wrong("the task at step %d, point %d got %d inputs where it needs %d", t, p, len(self.inputs), len(self.needs)))
	} else {
		for i, d := range self.inputs {
			if got := &before[d]; got.step != int64(t-1) || got.point != int64(self.needs[i]) {
				in.fail(harness.Wrong("the task at step %d, point %d got the output of (%d, %d) where it needs that of (%d, %d)",
					t, p, got.step, got.point, t-1, self.needs[i]))
			}
		}
	}
	n := in.kernel.iterations(in.iterations, t, p)
	value := in.kernel.run(n, t, in.memory[t&1][p])
	out := in.output(t, p)
	out.step, out.point, out.value = int64(t), int64(p), value
	out.runs++
	out.work += n
}

func (in *instance) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.wrong == nil {
		in.wrong = err
	}
}

// check verifies the outputs after a run.
func (in *instance) check() error {
	if in.wrong != nil {
		return in.wrong
	}
	want := newInstance(in.graph, Kernel{Kind: Empty}, 0)
	in.graph.each(func(t, p int, _ *point) {
		out := want.output(t, p)
		out.step, out.point = int64(t), int64(p)
		out.runs++
		out.work += in.kernel.iterations(in.iterations, t, p)
	})
	for b := range want.tiles {
		for p := range want.tiles[b] {
			got, want := &in.tiles[b][p], &want.tiles[b][p]
			switch {
			case got.runs != want.runs:
				return harness.Wrong("output %d of point %d was written %d times, not %d", b, p, got.runs, want.runs)
			case want.runs > 0 && (got.step != want.step || got.point != want.point):
				return harness.Wrong("output %d of point %d is of (%d, %d), not of (%d, %d)", b, p, got.step, got.point, want.step, want.point)
			case got.work != want.work:
				return harness.Wrong("the tasks of output %d of point %d made %d iterations, not %d", b, p, got.work, want.work)
			}
		}
	}
	return nil
}
