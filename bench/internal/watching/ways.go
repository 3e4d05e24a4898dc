// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"weft/bench/internal/harness"
	"weft/bench/internal/tasks"
	"weft/observe"
	"weft/task"
	"weft/trace"
)

// A Way is a way to observe a program, or none.
type Way struct {
	Name  string
	About string
	Base  string  // the way that it is compared with; empty: none
	Goal  float64 // the ratio that it should not exceed

	watch func(dir string) (*trace.Recorder, error) // nil: does not record
}

// Without is the way of a program that is built without the probe.
const Without = "without"

// Off is the way of a program that does not record.
const Off = "off"

// Ways returns all ways. A way comes after its Base.
func Ways() []Way {
	observer := func(c observe.Config) func(string) (*trace.Recorder, error) {
		return func(string) (*trace.Recorder, error) {
			o, err := observe.New(c)
			if err != nil {
				return nil, err
			}
			return o.Recorder(), nil
		}
	}
	return []Way{
		{Name: Without, About: "built without the probe"},
		{Name: Off, About: "nothing is watched", Base: Without, Goal: 1},
		{Name: "statistics", About: "observe.Config{}", Base: Off, Goal: 1.1, watch: observer(observe.Config{})},
		{Name: "profile", About: "observe.Config{Sample: 64, Stacks: true}", Base: Off, Goal: 1.15, watch: observer(observe.Config{Sample: 64, Stacks: true})},
		{Name: "timeline", About: "trace.Options{File: …}", Base: Off, Goal: 1.5, watch: func(dir string) (*trace.Recorder, error) {
			return trace.New(trace.Options{File: filepath.Join(dir, "run.weft")})
		}},
		{Name: "all", About: "observe.Config{Sample: 1}: no goal", Base: Off, watch: observer(observe.Config{Sample: 1})},
	}
}

// Result is the measurement of a process.
type Result struct {
	PerTask float64 // nanoseconds: the median of the sweeps
	// processor time in nanoseconds for each task, of all threads; zero if it is not known
	CPU    float64
	Sweeps int
	Lost   float64 // trace events, for each task
}

// side of the grid of task/blocks.
const side = 64

// Measure runs the graph for the time d in this way.
func (w *Way) Measure(ctx context.Context, d time.Duration) (r Result, err error) {
	cfg := task.Config{Workers: runtime.GOMAXPROCS(0)}
	if w.watch != nil {
		dir, err := os.MkdirTemp("", "weft-watching-")
		if err != nil {
			return r, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if cfg.Trace, err = w.watch(dir); err != nil {
			return r, err
		}
	}
	g := tasks.NewGraph(side)
	rt := task.New(cfg)
	var took []float64
	before, _ := harness.ProcessorTime() // zero where it is not known
	for end := time.Now().Add(d); len(took) < 3 || time.Now().Before(end); {
		g.Reset()
		start := time.Now()
		if err := rt.Run(ctx, g.Main); err != nil {
			return r, err
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/float64(g.Tasks()))
		if err := g.Check(); err != nil {
			return r, fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	after, _ := harness.ProcessorTime()
	r.Sweeps = len(took)
	r.CPU = float64((after - before).Nanoseconds()) / float64(g.Tasks()*int64(len(took)))
	if err := rt.Close(); err != nil {
		return r, err
	}
	if cfg.Trace != nil {
		if err := cfg.Trace.Close(); err != nil {
			return r, err
		}
		r.Lost = float64(cfg.Trace.Lost()) / float64(g.Tasks()*int64(len(took)))
	}
	slices.Sort(took)
	r.PerTask = took[len(took)/2]
	return r, nil
}
