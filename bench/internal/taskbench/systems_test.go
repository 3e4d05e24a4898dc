// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
	"weft/internal/leaktest"
)

// kit is shared by the tests, so that each program is built once.
var kit = native.NewKit(os.DirFS("../../peers"))

func TestMain(m *testing.M) {
	status := leaktest.Main(m)
	if err := kit.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(1, status)
	}
	os.Exit(status)
}

// open opens a machine, or skips the test where a tool chain is missing.
func open(t *testing.T, sys System, g *Graph, k Kernel, workers int) *Machine {
	t.Helper()
	k, err := k.normalize()
	require.NoError(t, err)
	// the test's own is cancelled before it closes the machine
	m, err := sys.Open(context.WithoutCancel(t.Context()), g, k, workers)
	if sys.Extra && errors.Is(err, harness.ErrSkipped) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.close()) })
	return m
}

// Every system gives right answers in every pattern and kernel. With -race the test also proves
// that the systems in Go order all conflicting tasks. The C programs compare their amount of work
// with Go's.
func TestSystemsAreRight(t *testing.T) {
	// otherwise libomp's threads spin after every run, and the peer waits for them
	t.Setenv("KMP_BLOCKTIME", "0")
	kernels := []Kernel{{Kind: Empty}, {Kind: Compute}, {Kind: Memory, Scratch: 4096}, {Kind: Imbalanced}}
	for _, sys := range Systems(kit) {
		t.Run(sys.Name, func(t *testing.T) {
			for i, p := range Patterns() {
				g, err := NewGraph(Config{Pattern: p, Width: 7, Steps: 15, Radix: 5})
				require.NoError(t, err)
				m := open(t, sys, g, kernels[i%len(kernels)], 2)
				for _, n := range []int64{0, 1, 300} {
					ns, err := m.Run(t.Context(), n, 0)
					require.NoError(t, err, p)
					require.Positive(t, ns)
				}
				ns, err := m.Peak(t.Context(), 100, 0)
				require.NoError(t, err)
				require.Positive(t, ns)
				require.NoError(t, m.close())
				m.Close = nil
			}
		})
	}
}

// plant gives one task of the last step a wrong list of inputs, in the form of every system.
func plant(g *Graph, change func(inputs []int32) []int32) {
	s := g.steps[2]
	p := &s.points[3]
	p.inputs = change(slices.Clone(p.inputs))
	// the order stays right
	p.follows = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.inputs, p.follows))))
}

// A wrong, missing or superfluous edge fails the run of every system.
func TestPlantedWrongEdges(t *testing.T) {
	t.Setenv("KMP_BLOCKTIME", "0")
	plants := map[string]func([]int32) []int32{
		"wrong":   func(in []int32) []int32 { in[1] = 6; return in },
		"missing": func(in []int32) []int32 { return in[1:] },
		"more":    func(in []int32) []int32 { return append(in, 6) },
	}
	for _, sys := range Systems(kit) {
		t.Run(sys.Name, func(t *testing.T) {
			for name, change := range plants {
				g, err := NewGraph(Config{Pattern: FFT, Width: 8, Steps: 3})
				require.NoError(t, err)
				plant(g, change)
				m := open(t, sys, g, Kernel{Kind: Compute}, 2)
				_, err = m.Run(t.Context(), 10, 0)
				require.ErrorIs(t, err, harness.ErrWrongAnswer, name)
				require.ErrorContains(t, err, "the task at step 2, point 3", name)
				require.ErrorContains(t, err, map[string]string{"wrong": ", 6) where"}[name])
			}
		})
	}
}

// The check finds every mistake in the order: a task that runs too early, too late, twice or never.
func TestForgottenOrder(t *testing.T) {
	g, err := NewGraph(Config{Pattern: Stencil1D, Width: 4, Steps: 6})
	require.NoError(t, err)
	k, err := Kernel{Kind: Compute}.normalize()
	require.NoError(t, err)
	type id struct{ t, p int }
	run := func(order []id) error {
		in := newInstance(g, k, 1)
		m := in.machine(1, func(context.Context) error {
			for _, at := range order {
				in.execute(at.t, at.p)
			}
			return nil
		}, nil)
		_, err := m.Run(t.Context(), 3, 0)
		return err
	}
	var right []id
	g.each(func(t, p int, _ *point) { right = append(right, id{t, p}) })
	require.NoError(t, run(right))
	for i, at := range right {
		require.ErrorIs(t, run(slices.Delete(slices.Clone(right), i, i+1)), harness.ErrWrongAnswer, "never: %v", at)
		require.ErrorIs(t, run(slices.Insert(slices.Clone(right), i, at)), harness.ErrWrongAnswer, "twice: %v", at)
	}
	conflict := func(a, b id) bool {
		return b.t-a.t == 1 && max(a.p-b.p, b.p-a.p) <= 1 || b.t-a.t == 2 && a.p == b.p
	}
	swapped := 0
	for i := range right {
		for j := i + 1; j < len(right); j++ {
			order := slices.Clone(right)
			copy(order[i:j], right[i+1:j+1]) // task i late, after task j
			order[j] = right[i]
			bad := slices.ContainsFunc(right[i+1:j+1], func(b id) bool { return conflict(right[i], b) })
			if bad {
				swapped++
				require.ErrorIs(t, run(order), harness.ErrWrongAnswer, "%v after %v", right[i], right[j])
			} else {
				require.NoError(t, run(order), "%v after %v", right[i], right[j])
			}
		}
	}
	require.Positive(t, swapped)
}

func TestSlowGraphsAreLeftOut(t *testing.T) {
	g, err := NewGraph(Config{Pattern: Stencil1D, Width: 16, Steps: slowGraph})
	require.NoError(t, err)
	_, err = foreign(nil, native.Libgomp)(t.Context(), g, Kernel{Kind: Compute}, 1)
	require.ErrorIs(t, err, harness.ErrSkipped)
	require.ErrorContains(t, err, "square")
}

func TestMoreWorkersThanPoints(t *testing.T) {
	for _, sys := range Systems(kit) {
		t.Run(sys.Name, func(t *testing.T) {
			g, err := NewGraph(Config{Pattern: NoComm, Width: 1, Steps: 20})
			require.NoError(t, err)
			m := open(t, sys, g, Kernel{Kind: Memory, Scratch: 4096}, 3)
			_, err = m.Run(t.Context(), 4, 0)
			require.NoError(t, err)
			_, err = m.Peak(t.Context(), 50, 0)
			require.NoError(t, err)
		})
	}
}

// The rows. The tests of the command line test its output.
func TestExperiments(t *testing.T) {
	exp := Experiment{Config: Config{Pattern: Stencil1D, Width: 16, Steps: 1000}, Kernel: Kernel{Kind: Compute}, Iterations: 50}
	var results []Result
	exp.Report = func(r Result) { results = append(results, r) }
	for _, ref := range []Reference{OwnPeak, BestPeak} {
		exp.Reference = ref
		for _, make := range []func(*native.Kit, Experiment) (harness.Workload, error){Run, METG} {
			w, err := make(kit, exp)
			require.NoError(t, err)
			plan := harness.NewPlan([]harness.Workload{w}, harness.Config{Quick: true, Workers: []int{2}, Reps: 1, Only: []string{"weft", "channels"}})
			results = nil
			rep, err := plan.Run(t.Context(), harness.Observer{Failed: func(r harness.Row, why error) { t.Error(r, why) }})
			require.NoError(t, err)
			require.Len(t, rep.Rows, 2)
			require.Len(t, results, 4, "two systems, one unrecorded sample each")
			for _, r := range results {
				require.EqualValues(t, quickSteps*quickWidth, r.Tasks)
				require.NoError(t, r.Err)
				if w.Name == "metg/stencil_1d" {
					require.Equal(t, []harness.Goal{stencilGoal}, w.Goals)
					require.Positive(t, r.Sweep.METG)
					require.Positive(t, r.Sweep.Peak)
				} else {
					require.Equal(t, "taskbench/stencil_1d", w.Name)
					require.Positive(t, r.Efficiency)
				}
			}
		}
	}
	exp.Kind, exp.Report = Memory, nil
	w, err := METG(kit, exp)
	require.NoError(t, err)
	require.Equal(t, "metg/stencil_1d/memory", w.Name)
	require.Empty(t, w.Goals)
	for _, p := range w.Peers {
		require.NotEqual(t, Sequential, p.Name)
	}

	exp.Reference, exp.Pattern, exp.Kind, exp.Iterations, exp.Grains = "mine", "ring", "busy", -1, Grains{Start: 2, Limit: 1}
	_, err = Run(kit, exp)
	for _, says := range []string{"own, best", "ring", "busy", "-1 iterations", "grains"} {
		require.ErrorContains(t, err, says)
	}
	_, err = METG(kit, Experiment{Config: Config{Pattern: Trivial, Width: 1, Steps: 1}, Kernel: Kernel{Kind: Empty}})
	require.ErrorContains(t, err, "kernel empty")
}

// With the best peak, all efficiencies are relative to the fastest of the systems that are
// measured.
func TestBestPeak(t *testing.T) {
	e, err := Experiment{Config: Config{Pattern: Trivial, Width: 2, Steps: 2}, Kernel: Kernel{Kind: Compute}, Reference: BestPeak}.normalize()
	require.NoError(t, err)
	var opened atomic.Int32
	slow := func(factor float64) System {
		return System{Name: "slow", Open: func(context.Context, *Graph, Kernel, int) (*Machine, error) {
			m := synthetic(0)
			fast := m.Peak
			m.Peak = func(ctx context.Context, n int64, least time.Duration) (float64, error) {
				ns, err := fast(ctx, n, least)
				return factor * ns, err
			}
			m.Close = func() error { opened.Add(-1); return nil }
			opened.Add(1)
			return m, nil
		}}
	}
	var seen []float64
	var probes []harness.Probe
	for _, factor := range []float64{3, 1, 2} {
		p := e.peer(slow(factor), true, func(_ context.Context, _ harness.Params, m *Machine) (float64, error) {
			seen = append(seen, m.known.ns)
			return 1, nil
		})
		probe, err := p.Open(t.Context(), harness.Params{Workers: 2, Size: 2})
		require.NoError(t, err)
		probes = append(probes, probe)
	}
	for _, p := range probes {
		_, err := p.Sample(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	require.InDeltaSlice(t, []float64{0.625, 0.625, 0.625}, seen, 1e-9)
	require.Zero(t, opened.Load())
}
