// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"sync"
	"time"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
	"weft/deps"
	"weft/task"
)

// A System is a way to run graphs.
type System struct {
	Name  string
	Extra bool // needs other tools; see harness.Peer
	Rival bool // another task runtime; see harness.Peer

	// Open prepares a machine with as many threads as workers.
	Open func(ctx context.Context, g *Graph, k Kernel, workers int) (*Machine, error)
}

// A Machine runs one graph with one kernel on one system. Both functions return nanoseconds per
// task, of runs that add up to at least the given time, and an error that wraps
// harness.ErrWrongAnswer if something was wrong.
type Machine struct {
	// Run runs the graph with a number of iterations of the kernel in each task.
	Run func(ctx context.Context, iterations int64, least time.Duration) (float64, error)

	// Peak makes the iterations of all tasks without a graph, an equal part in each thread.
	Peak func(ctx context.Context, iterations int64, least time.Duration) (float64, error)

	// Close releases what Open took. It may be nil.
	Close func() error

	workers int
	tasks   int64
	average func(iterations int64) float64 // iterations of a task in a run, on average
	known   *peak                          // best so far, of this machine or of all
}

// newMachine makes a Machine without functions.
func newMachine(g *Graph, k Kernel, workers int) *Machine {
	return &Machine{workers: workers, tasks: g.Tasks, known: new(peak), average: func(n int64) float64 { return float64(g.work(&k, n)) / float64(g.Tasks) }}
}

func (m *Machine) close() error {
	if m.Close == nil {
		return nil
	}
	return m.Close()
}

// Sequential is the name of the system that has one thread, for any number of workers.
const Sequential = "sequential"

// Systems returns weft and its peers.
func Systems(kit *native.Kit) []System {
	list := []System{
		{Name: harness.Ours, Open: openWeft},
		{Name: "goroutines", Open: inGo((*instance).goroutines)},
		{Name: "channels", Open: inGo((*instance).channels)},
		{Name: "ants", Open: openAnts},
		{Name: "errgroup", Open: inGo((*instance).errgroup)},
		{Name: Sequential, Open: inGo((*instance).sequential)},
	}
	for _, tc := range native.Toolchains() {
		list = append(list, System{Name: tc.Name, Extra: true, Rival: true, Open: foreign(kit, tc)})
	}
	return list
}

// machine makes a Machine of a function that runs all tasks of an instance.
func (in *instance) machine(workers int, run func(context.Context) error, closer func() error) *Machine {
	perTask := func(ctx context.Context, least time.Duration, once func() (time.Duration, error)) (float64, error) {
		total, runs, err := harness.Repeat(ctx, least, once)
		return float64(total.Nanoseconds()) / float64(int64(runs)*in.graph.Tasks), err
	}
	m := newMachine(in.graph, in.kernel, workers)
	m.Close = closer
	m.Run = func(ctx context.Context, iterations int64, least time.Duration) (float64, error) {
		return perTask(ctx, least, func() (time.Duration, error) {
			in.reset(iterations)
			began := time.Now()
			err := run(ctx)
			took := time.Since(began)
			if err == nil {
				err = in.check()
			}
			return took, err
		})
	}
	m.Peak = func(ctx context.Context, iterations int64, least time.Duration) (float64, error) {
		return perTask(ctx, least, func() (time.Duration, error) { return in.peak(workers, iterations), nil })
	}
	return m
}

// peak makes the iterations of the graph's tasks in one part for each worker. A worker uses the
// memory of every workers-th point in turn, so all memory is used, and none by two workers.
func (in *instance) peak(workers int, iterations int64) time.Duration {
	var wg sync.WaitGroup
	sums := make([]tile, workers) // a cache line each
	began := time.Now()
	for w := range workers {
		wg.Go(func() {
			p, b := w, 0
			for i := int64(w); i < in.graph.Tasks; i += int64(workers) {
				sums[w].value += in.kernel.run(iterations, 0, in.memory[b][p])
				if p += workers; p >= len(in.memory[b]) {
					p, b = w, 1-b
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// inGo makes the Open of a system that needs only an instance.
func inGo(run func(*instance) error) func(context.Context, *Graph, Kernel, int) (*Machine, error) {
	return func(_ context.Context, g *Graph, k Kernel, workers int) (*Machine, error) {
		in := newInstance(g, k, workers)
		return in.machine(workers, func(context.Context) error { return run(in) }, nil), nil
	}
}

func openWeft(_ context.Context, g *Graph, k Kernel, workers int) (*Machine, error) {
	in := newInstance(g, k, workers)
	rt := task.New(task.Config{Workers: workers})
	return in.machine(workers, func(ctx context.Context) error { return rt.Run(ctx, in.weft) }, rt.Close), nil
}

// weft is the main task: one task for each point, with out on its output and in on its inputs.
func (in *instance) weft(t *task.Task) error {
	var accesses []deps.Access
	in.graph.each(func(step, p int, self *point) {
		accesses = append(accesses[:0], deps.Out(in.output(step, p)))
		for _, d := range self.inputs {
			accesses = append(accesses, deps.In(in.output(step-1, int(d))))
		}
		t.Spawn(func(*task.Task) error {
			in.execute(step, p)
			return nil
		}, accesses...)
	})
	return nil
}
