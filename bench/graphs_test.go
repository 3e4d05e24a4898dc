// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
	"weft/bench/internal/taskbench"
)

func TestTaskbenchCommand(t *testing.T) {
	dir := t.TempDir()
	file, doc := filepath.Join(dir, "rows.json"), filepath.Join(dir, "rows.md")
	status, stdout, stderr := runBench(t, nil, "taskbench", "-type", "stencil_1d,tree", "-width", "4", "-steps", "20", "-kernel", "load_imbalance",
		"-iter", "10", "-only", "weft,channels", "-workers", "2", "-reps", "2", "-mintime", "1ms", "-json", file, "-markdown", doc)
	require.Equal(t, exitOK, status, stderr)
	var names []string
	for _, r := range readRows(t, file) {
		require.True(t, r.OK)
		require.Equal(t, "ns/task", r.Unit)
		require.EqualValues(t, 4, r.Size)
		require.Positive(t, r.Median)
		names = append(names, r.Name+" "+r.Peer)
	}
	require.Equal(t, []string{"taskbench/stencil_1d weft", "taskbench/stencil_1d channels", "taskbench/tree weft", "taskbench/tree channels"}, names)
	require.Regexp(t, `taskbench/stencil_1d +weft +2 +80 +\S+ +\S+ +\d+\.\d % +as they should be`, stdout)
	require.Equal(t, 2*2*3, strings.Count(stderr, "ns/task\n")-len(names), "every sample is reported, the unrecorded ones too; and the rows")
	data := string(readFile(t, doc))
	require.Contains(t, data, "go run ./bench taskbench -type stencil_1d,tree")
	require.Contains(t, data, "| taskbench/tree | channels | 2 | ")
}

func TestMETGCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.json")
	status, stdout, stderr := runBench(t, nil, "metg", "-type", "no_comm", "-width", "4", "-steps", "20", "-only", "weft,goroutines",
		"-workers", "1", "-reps", "1", "-mintime", "1ms", "-sweeps", "-peak", "best", "-json", file, "-maxgrain", "1ms")
	if strings.Contains(stderr, taskbench.ErrUnreached.Error()) {
		t.Skip("the machine has other things to do")
	}
	require.Equal(t, exitOK, status, stderr)
	rows := readRows(t, file)
	require.Greater(t, len(rows), 4)
	for i, r := range rows {
		require.True(t, r.OK)
		require.Positive(t, r.Median)
		want := []any{"metg/no_comm", "µs"}
		if i >= 2 {
			want = []any{"metg/no_comm/efficiency", "%"}
			require.Positive(t, r.Size)
		}
		require.Equal(t, want, []any{r.Name, r.Unit})
	}
	require.Regexp(t, `metg/no_comm +weft +1 +\d+ +\S+ +\d+\.\d %`, stdout)
	require.Contains(t, stderr, "metg/no_comm goroutines, workers 1: METG ")
}

// A limit of the grain at which no system is efficient fails the row, and the error says why.
func TestMETGUnreached(t *testing.T) {
	status, stdout, stderr := runBench(t, nil, "metg", "-type", "all_to_all", "-steps", "200", "-only", "channels", "-workers", "2", "-reps", "1",
		"-mintime", "1ms", "-grain", "1ns", "-maxgrain", "1ns")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stdout, "FAILED")
	require.Contains(t, stderr, taskbench.ErrUnreached.Error())
}

func TestGraphUsageErrorsSayWhatIsLegal(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"taskbench", "-type", "ring"}, "random_nearest"},
		{[]string{"taskbench", "-kernel", "busy"}, "empty, compute, memory, imbalanced"},
		{[]string{"taskbench", "-width", "0"}, "width 0: 1 to 4096"},
		{[]string{"taskbench", "-steps", "0"}, "at least 1"},
		{[]string{"taskbench", "-iter", "-5"}, "0 or more"},
		{[]string{"taskbench", "-peak", "mine"}, "own, best"},
		{[]string{"taskbench", "-workers", "0"}, "from 1 to"},
		{[]string{"taskbench", "-only", "nobody"}, "libgomp"},
		{[]string{"taskbench", "-sweeps"}, "-h"},
		{[]string{"taskbench", "metg"}, `unexpected argument "metg"`},
		{[]string{"metg", "-kernel", "empty"}, "compute, memory, imbalanced"},
		{[]string{"metg", "-only", "sequential"}, "no peer"},
		{[]string{"metg", "-grain", "1s", "-maxgrain", "1ms"}, "at least as much"},
		{[]string{"metg", "-grain", "-1s"}, "more than 0"},
		{[]string{"metg", "-iter", "5"}, "-h"},
		{[]string{"metgs"}, "one of taskbench, metg, imb"},
	} {
		status, stdout, stderr := runBench(t, nil, c.args...)
		require.Equal(t, exitUsage, status, c.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, c.says, c.args)
	}
}

func TestGraphHelp(t *testing.T) {
	for name, flag := range map[string]string{"taskbench": "-iter", "metg": "-maxgrain"} {
		status, stdout, stderr := runBench(t, nil, name, "-h")
		require.Equal(t, exitOK, status)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "usage: go run ./bench "+name)
		for _, says := range []string{flag, "-peers", "stencil_1d", "imbalanced"} {
			require.Contains(t, stderr, says)
		}
	}
}

func TestMoreRowsByFlag(t *testing.T) {
	_, stdout, _ := runBench(t, nil, "-list")
	require.Equal(t, 1, strings.Count(stdout, "metg/"))
	_, stdout, _ = runBench(t, nil, "-list", "-patterns")
	for _, p := range []string{"trivial", "no_comm", "stencil_1d", "fft", "tree", "random_nearest", "spread", "all_to_all"} {
		require.Contains(t, stdout, "metg/"+p+" ")
	}
}

func TestQuickRunOfMETG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.json")
	status, _, stderr := runBench(t, nil, "-quick", "-run", "metg/", "-workers", "2", "-reps", "1", "-json", file)
	require.Equal(t, exitOK, status, stderr)
	var peers []string
	for _, r := range readRows(t, file) {
		peers = append(peers, r.Peer)
	}
	require.Equal(t, []string{harness.Ours, "goroutines", "channels", "ants", "errgroup"}, peers)
}

func TestRecord(t *testing.T) {
	var out strings.Builder
	rec := &record{stderr: &out}
	add := func(system string, perTask, efficiency float64, err error) {
		rec.add(taskbench.Result{Experiment: "taskbench/x", System: system, Workers: 2, Tasks: 7, PerTask: perTask,
			Reading: taskbench.Reading{Efficiency: efficiency}, Err: err})
	}
	for _, ns := range []float64{9000, 100, 400, 200} {
		add("b", ns, 0.5, nil)
		add("a", 2*ns, 0, nil)
	}
	add("a", 1, 0, errors.New("oops"))
	require.Contains(t, out.String(), "bench: taskbench/x b, workers 2: 400 ns/task\n")
	require.NotContains(t, out.String(), "oops", "failures are reported elsewhere")
	out.Reset()
	require.NoError(t, rec.runs(&out, true))
	require.Contains(t, out.String(), "| taskbench/x | a | 2 | 7 | 3.333e+06 | 600ns | - | oops |\n| taskbench/x | b | 2 | 7 | 5e+06 | 400ns | 50.0 % | as they should be |\n")
	require.Empty(t, rec.efficiencies(), "there is no grain size")
	require.Equal(t, "at most 1µs", atMost(&taskbench.Sweep{METG: float64(time.Microsecond), Bound: true}))
}

// The efficiencies are those of the search with the median METG, without the unrecorded one and
// those that failed.
func TestEfficiencies(t *testing.T) {
	rec := &record{stderr: io.Discard}
	for i, metg := range []float64{1, 9000, 5000, 2000, 4000} {
		var err error
		if i == 2 {
			err = errors.New("oops")
		}
		rec.add(taskbench.Result{Experiment: "metg/x", System: "b", Workers: 2, Err: err, Sweep: taskbench.Sweep{METG: metg, Readings: []taskbench.Reading{
			{Iterations: 1, Granularity: metg, Efficiency: 0.5}, {Iterations: 2, Granularity: metg + 0.1, Efficiency: 0.6}, {Iterations: 3, Granularity: metg + 0.6, Efficiency: 0.7},
		}}})
	}
	row := func(size int64, percent float64) harness.Row {
		return harness.Row{Name: "metg/x/efficiency", Peer: "b", Workers: 2, Ranks: 1, Size: size, Unit: "%", Median: percent, Min: percent, Max: percent, Runs: 1, OK: true}
	}
	require.Equal(t, []harness.Row{row(4000, 50), row(4001, 70)}, rec.efficiencies())
}
