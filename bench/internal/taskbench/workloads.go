// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
)

// A Reference says which peak an efficiency is relative to.
type Reference string

// The references.
const (
	// each system's own: the quality of its compiler does not count
	OwnPeak  Reference = "own"
	BestPeak Reference = "best" // the best of all systems of the run, as in the paper
)

// References returns all references.
func References() []Reference { return []Reference{OwnPeak, BestPeak} }

// An Experiment is a graph, a kernel, and the way to measure them.
type Experiment struct {
	Config
	Kernel
	Reference Reference // zero means OwnPeak

	Iterations int64  // Run: of the kernel in each task; METG finds them itself
	Grains     Grains // METG

	// Report, if not nil, receives every sample, the unrecorded ones too.
	Report func(Result)

	best map[int]*peak // BestPeak: of all systems, by the number of workers
}

// A Result is one sample of a system.
type Result struct {
	Experiment string // the workload's name
	System     string
	Workers    int
	Tasks      int64 // of the graph
	Sweep      Sweep // METG
	PerTask    float64
	Reading    // Run: Efficiency is zero if the kernel is empty or makes no iterations
	Err        error
}

// A quick run has a few steps of a few points, and a short search. On a busy machine the search may
// fail, which is no error.
const (
	quickWidth = 4
	quickSteps = 20
	quickLimit = 16 * DefaultStart
)

// normalize fills in defaults; the error names everything that is not legal.
func (e Experiment) normalize() (Experiment, error) {
	var errs [4]error
	e.best = map[int]*peak{}
	e.Config, errs[0] = e.Config.normalize()
	e.Kernel, errs[1] = e.Kernel.normalize()
	e.Grains, errs[2] = e.Grains.normalize()
	if e.Reference == "" {
		e.Reference = OwnPeak
	}
	if !slices.Contains(References(), e.Reference) {
		errs[3] = fmt.Errorf("no peak %q: there are %s", e.Reference, joined(References()))
	}
	return e, errors.Join(errs[:]...)
}

// Run returns the workload taskbench/PATTERN: each sample runs the graph with a fixed number of
// iterations.
func Run(kit *native.Kit, e Experiment) (harness.Workload, error) {
	e, err := e.normalize()
	if e.Iterations < 0 {
		err = errors.Join(err, fmt.Errorf("%d iterations: 0 or more", e.Iterations))
	}
	if err != nil {
		return harness.Workload{}, err
	}
	w := e.workload("taskbench/", "Task Bench: tasks that check their inputs and run a kernel", "ns/task")
	idle := e.Kind == Empty || e.Iterations == 0
	for _, sys := range Systems(kit) {
		w.Peers = append(w.Peers, e.peer(sys, !idle, func(ctx context.Context, p harness.Params, m *Machine) (float64, error) {
			res := Result{Experiment: w.Name, System: sys.Name, Workers: p.Workers, Tasks: m.tasks}
			res.Iterations = e.Iterations
			res.PerTask, res.Err = m.Run(ctx, e.Iterations, p.MinTime)
			res.Granularity = res.PerTask * float64(p.Workers)
			if res.Err == nil && !idle {
				var ns float64
				ns, res.Err = m.measurePeak(ctx, p.MinTime)
				res.Efficiency = min(1, ns*m.average(e.Iterations)/res.PerTask)
			}
			e.report(res)
			return res.PerTask, res.Err
		}))
	}
	return w, nil
}

// stencilGoal is the target of metg/stencil_1d with sixteen points.
var stencilGoal = harness.Goal{Workers: 2, RivalWorkers: 2, Ratio: 0.5}

// METG returns the workload metg/PATTERN, or metg/PATTERN/KERNEL where the kernel is not compute:
// each sample is a whole search. There is no sequential peer: with two workers its rate is at most
// half of the peak.
func METG(kit *native.Kit, e Experiment) (harness.Workload, error) {
	e, err := e.normalize()
	if e.Kind == Empty {
		err = errors.Join(err, errors.New("kernel empty: it does no work whose efficiency could be measured; there are compute, memory, imbalanced"))
	}
	if err != nil {
		return harness.Workload{}, err
	}
	w := e.workload("metg/", "Task Bench: the smallest granularity at half of the peak", "µs")
	switch {
	case e.Kind != Compute:
		w.Name += "/" + string(e.Kind)
	case e.Pattern == Stencil1D && e.Width == 16:
		w.Goals = []harness.Goal{stencilGoal}
	}
	for _, sys := range Systems(kit) {
		if sys.Name == Sequential {
			continue
		}
		w.Peers = append(w.Peers, e.peer(sys, true, func(ctx context.Context, p harness.Params, m *Machine) (float64, error) {
			res := Result{Experiment: w.Name, System: sys.Name, Workers: p.Workers, Tasks: m.tasks}
			if _, res.Err = m.measurePeak(ctx, p.MinTime); res.Err == nil {
				grains := e.Grains
				if p.Quick {
					grains = Grains{Start: DefaultStart, Limit: quickLimit}
				}
				// there are about a dozen grains, and most of them last longer
				res.Sweep, res.Err = m.METG(ctx, m.known, grains, p.MinTime/5)
				if p.Quick && errors.Is(res.Err, ErrUnreached) {
					res.Sweep.METG, res.Err = float64(quickLimit), nil
				}
			}
			e.report(res)
			return res.Sweep.METG / float64(time.Microsecond), res.Err
		}))
	}
	return w, nil
}

// Rows returns the rows of the main command: METG of one pattern, or of all patterns that weft is
// compared in.
func Rows(kit *native.Kit, all bool) []harness.Workload {
	patterns := []Pattern{Stencil1D}
	if all {
		patterns = []Pattern{Stencil1D, Trivial, NoComm, FFT, Tree, RandomNearest, Spread, AllToAll}
	}
	var out []harness.Workload
	for _, p := range patterns {
		w, err := METG(kit, Experiment{Config: Config{Pattern: p, Width: 16, Steps: 1000}, Kernel: Kernel{Kind: Compute}})
		if err != nil {
			panic(err) // the list above is wrong
		}
		out = append(out, w)
	}
	return out
}

func (e *Experiment) report(r Result) {
	if e.Report != nil {
		e.Report(r)
	}
}

func (e *Experiment) workload(prefix, about, unit string) harness.Workload {
	return harness.Workload{
		Name: prefix + string(e.Pattern), About: about, Unit: unit,
		SizeOf: "points", Sizes: []int64{int64(e.Width)}, Quick: []int64{min(quickWidth, int64(e.Width))},
	}
}

// peer makes a peer of a system. busy says that the kernel does work. Only then may sample use
// m.known.
func (e *Experiment) peer(sys System, busy bool, sample func(ctx context.Context, p harness.Params, m *Machine) (float64, error)) harness.Peer {
	open := func(ctx context.Context, p harness.Params) (harness.Probe, error) {
		cfg := e.Config
		if p.Quick {
			cfg.Width, cfg.Steps = int(p.Size), min(cfg.Steps, quickSteps)
			cfg.Radix, cfg.Period = min(cfg.Radix, cfg.Width), 0
		}
		g, err := NewGraph(cfg)
		if err != nil {
			return harness.Probe{}, err
		}
		m, err := sys.Open(ctx, g, e.Kernel, p.Workers)
		if err != nil {
			return harness.Probe{}, err
		}
		if e.Reference == BestPeak && busy {
			// All peers of a group are opened before the first is measured.
			if e.best[p.Workers] == nil {
				e.best[p.Workers] = new(peak)
			}
			m.known = e.best[p.Workers]
			if _, err := m.measurePeak(ctx, p.MinTime); err != nil {
				return harness.Probe{}, errors.Join(err, m.close())
			}
		}
		return harness.Probe{Sample: func(ctx context.Context) (float64, error) { return sample(ctx, p, m) }, Close: m.close}, nil
	}
	return harness.Peer{Name: sys.Name, Extra: sys.Extra, Rival: sys.Rival, Open: open}
}
