// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
)

// slowGraph is the greatest number of tasks with inputs that libgomp runs with one thread. There it
// searches all earlier readers: 16,000 tasks take more than a second (measured, gcc 12).
const slowGraph = 4000

// foreign makes the Open of the system that a tool chain builds from bench/peers/taskbench_*.
func foreign(kit *native.Kit, tc *native.Toolchain) func(context.Context, *Graph, Kernel, int) (*Machine, error) {
	return func(ctx context.Context, g *Graph, k Kernel, workers int) (*Machine, error) {
		if tc == native.Libgomp && workers == 1 && g.Tasks > slowGraph && g.edges() > 0 {
			return nil, harness.Skip("with one thread its time for a graph grows with the square of the tasks: seconds for %d", g.Tasks)
		}
		file, err := graphFile(g, k)
		if err != nil {
			return nil, err
		}
		f := &foreignMachine{graph: g, kernel: k, file: file}
		args := []string{strconv.Itoa(g.Width), strconv.Itoa(workers), file}
		for i, what := range []string{"graph", "peak"} {
			if f.procs[i], err = kit.Start(ctx, tc, "taskbench", append([]string{what}, args...)...); err != nil {
				return nil, errors.Join(err, f.close())
			}
		}
		m := newMachine(g, k, workers)
		m.Run, m.Peak, m.Close = f.run, f.peak, f.close
		return m, nil
	}
}

// graphFile writes the file for the programs: the kernel, and the graph.
func graphFile(g *Graph, k Kernel) (string, error) {
	f, err := os.CreateTemp("", "weft-graph-")
	if err != nil {
		return "", err
	}
	fmt.Fprintf(f, "%s %g %d\n", k.Kind, k.Imbalance, k.Scratch)
	return f.Name(), errors.Join(g.write(f), f.Close())
}

// foreignMachine has the two processes of a program: one runs the graph, one measures the peak.
type foreignMachine struct {
	graph  *Graph
	kernel Kernel
	file   string
	procs  [2]*native.Process
}

func ask(p *native.Process, iterations, expected int64, least time.Duration) (float64, error) {
	return p.Ask(fmt.Sprintf("sample %d %d %.3f", iterations, expected, least.Seconds()*1e3))
}

func (f *foreignMachine) run(_ context.Context, iterations int64, least time.Duration) (float64, error) {
	return ask(f.procs[0], iterations, f.graph.work(&f.kernel, iterations), least)
}

func (f *foreignMachine) peak(_ context.Context, iterations int64, least time.Duration) (float64, error) {
	return ask(f.procs[1], iterations, 0, least)
}

func (f *foreignMachine) close() error {
	err := os.Remove(f.file)
	for _, p := range f.procs {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
	}
	return err
}
