// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
	"weft/bench/internal/native"
)

// runBench runs the program and returns its exit status and its two outputs.
func runBench(t *testing.T, extra []harness.Workload, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = bench(t.Context(), args, extra, &out, &err)
	return status, out.String(), err.String()
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

// readRows reads a -json file strictly: exactly the documented fields, all of them.
func readRows(t *testing.T, name string) []harness.Row {
	t.Helper()
	data := readFile(t, name)
	var loose []map[string]any
	require.NoError(t, json.Unmarshal(data, &loose))
	for _, row := range loose {
		var keys []string
		for k := range row {
			keys = append(keys, k)
		}
		require.ElementsMatch(t, []string{"name", "peer", "workers", "ranks", "size", "unit", "median", "min", "max", "runs", "ok"}, keys)
	}
	var rows []harness.Row
	require.NoError(t, json.Unmarshal(data, &rows))
	return rows
}

func TestQuickRunOfTasksAndMessages(t *testing.T) {
	// otherwise libomp's threads spin after every sample, and the peer waits for them
	t.Setenv("KMP_BLOCKTIME", "0")
	file := filepath.Join(t.TempDir(), "rows.json")
	status, stdout, stderr := runBench(t, nil, "-quick", "-run", "^(task|msg)/", "-workers", "1,2", "-peers", "-json", file)
	require.Equal(t, exitOK, status, stderr)
	rows := readRows(t, file)
	names := map[string][]string{}
	for _, r := range rows {
		require.True(t, r.OK, r)
		require.Positive(t, r.Min, r)
		require.LessOrEqual(t, r.Min, r.Median, r)
		require.LessOrEqual(t, r.Median, r.Max, r)
		require.Equal(t, 2, r.Runs, r)
		require.Contains(t, []int{1, 2}, r.Workers)
		require.Positive(t, r.Size)
		require.Contains(t, stdout, r.Name)
		if !slices.Contains(names[r.Name], r.Peer) {
			names[r.Name] = append(names[r.Name], r.Peer)
		}
	}
	require.ElementsMatch(t, []string{"weft", "channels", "copy"}, names["msg/pingpong"])
	for name, twin := range map[string]string{
		"task/independent": "goroutines", "task/chain": "channels", "task/chains64": "channels",
		"task/readers": "channels", "task/blocks": "channels", "task/forkjoin": "goroutines",
	} {
		require.Contains(t, names[name], harness.Ours, name)
		require.Contains(t, names[name], twin, name)
		require.Contains(t, names[name], "sequential", name)
		for _, tc := range native.Toolchains() {
			if !slices.Contains(names[name], tc.Name) {
				require.Contains(t, stderr, "peer "+tc.Name+": skipped", "a peer that is missing says why")
			}
		}
	}
	for _, name := range []string{"task/independent", "task/forkjoin"} {
		require.Contains(t, names[name], "ants")
		require.Contains(t, names[name], "errgroup")
	}
	rivals := slices.ContainsFunc(native.Toolchains(), func(tc *native.Toolchain) bool { return slices.Contains(names["task/chain"], tc.Name) })
	require.Equal(t, rivals, strings.Contains(stdout, "best of its rivals"))
}

func TestQuickRunOfHeat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.json")
	status, stdout, stderr := runBench(t, nil, "-quick", "-run", "^heat/", "-workers", "2", "-reps", "1", "-json", file)
	require.Equal(t, exitOK, status, stderr)
	ran := map[string]int{}
	for _, r := range readRows(t, file) {
		require.True(t, r.OK, r)
		require.Equal(t, "MUpd/s", r.Unit)
		require.Positive(t, r.Median)
		ran[r.Name+" "+r.Peer]++
	}
	require.Equal(t, map[string]int{
		"heat/mpi weft": 2, "heat/mpi sequential": 2, "heat/itampi weft": 2, "heat/itampi sequential": 2,
		"heat/tampirma weft": 1, "heat/tampirma sequential": 1, "heat/snapshots weft": 1, "heat/snapshots nosnapshot": 1,
	}, ran, stdout)
}

func TestProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.prof")
	var status int
	var stdout, stderr string
	for _, least := range []string{"200ms", "1s", "5s"} {
		// on a busy machine a short run may get no sample
		status, stdout, stderr = runBench(t, nil, "-quick", "-run", "task/chain$", "-only", "weft", "-workers", "1", "-mintime", least,
			"-top", "5", "-cpuprofile", file)
		if !strings.Contains(stderr, "no CPU samples") {
			break
		}
	}
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, `cpu profile: \S+s in weft.s samples(?s:.*)flat% +group +function`, stdout)
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	_, err = profile.Parse(f)
	require.NoError(t, err)
}

// planted returns a workload whose only peer fails its check from the given sample on.
func planted(from int) []harness.Workload {
	open := func(context.Context, harness.Params) (harness.Probe, error) {
		n := 0
		return harness.Probe{Sample: func(context.Context) (float64, error) {
			if n++; n >= from {
				return 1, harness.Wrong("planted")
			}
			return 1, nil
		}}, nil
	}
	return []harness.Workload{{
		Name: "test/planted", Unit: "ns", Sizes: []int64{1}, Quick: []int64{1},
		Peers: []harness.Peer{{Name: harness.Ours, Open: open}},
	}}
}

func TestWrongAnswerFailsTheRun(t *testing.T) {
	for from := 1; from <= 3; from++ {
		file := filepath.Join(t.TempDir(), "rows.json")
		status, stdout, stderr := runBench(t, planted(from), "-quick", "-run", "test/planted", "-workers", "1", "-json", file)
		require.Equal(t, exitFailed, status)
		require.Contains(t, stdout, "FAILED")
		require.Contains(t, stderr, "wrong answer: planted")
		rows := readRows(t, file)
		require.Len(t, rows, 1)
		require.False(t, rows[0].OK)
	}
	status, stdout, _ := runBench(t, planted(100), "-quick", "-run", "test/planted", "-workers", "1")
	require.Equal(t, exitOK, status)
	require.NotContains(t, stdout, "FAILED")
}

func TestUsageErrorsSayWhatIsLegal(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-workers", "0"}, "from 1 to"},
		{[]string{"-workers", "1,two"}, `"two"`},
		{[]string{"-reps", "0"}, "at least 1"},
		{[]string{"-run", "("}, "-run"},
		{[]string{"-run", "nothing"}, "task/chain"},
		{[]string{"-only", "nobody"}, "channels"},
		{[]string{"-top", "-1"}, "-top"},
		{[]string{"chain"}, `unexpected argument "chain": a command must come first, one of taskbench, metg, imb, watching, plot; `},
		{[]string{"-json", "no/such/folder/rows.json"}, "-json: open no/such/folder/rows.json"},
		{[]string{"-markdown", "."}, "-markdown: open ."},
		{[]string{"taskbench", "-cpuprofile", "no/such/folder/cpu"}, "-cpuprofile: open no/such/folder/cpu"},
		{[]string{"imb", "-json", "no/such/folder/rows.json"}, "-json: open no/such/folder/rows.json"},
		{[]string{"-nonsense"}, "-h"},
	} {
		status, stdout, stderr := runBench(t, nil, c.args...)
		require.Equal(t, exitUsage, status, c.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, c.says)
	}
}

func TestHelpAndList(t *testing.T) {
	status, _, stderr := runBench(t, nil, "-h")
	require.Equal(t, exitOK, status)
	for _, s := range []string{"-workers", "bench taskbench", "bench metg", "bench imb", "bench watching"} {
		require.Contains(t, stderr, s)
	}
	status, stdout, _ := runBench(t, nil, "-list")
	require.Equal(t, exitOK, status)
	require.Contains(t, stdout, "task/forkjoin")
}

// The test whether a file can be written neither creates nor changes it.
func TestOutputsAreLeftAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))
	for _, f := range []string{old, fresh} {
		status, _, _ := runBench(t, nil, "-list", "-json", f)
		require.Equal(t, exitOK, status)
	}
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	require.NoFileExists(t, fresh)
}

func TestJSONToStandardOutput(t *testing.T) {
	status, stdout, stderr := runBench(t, nil, "-quick", "-run", "task/chain$", "-workers", "1", "-only", "sequential", "-json", "-")
	require.Equal(t, exitOK, status, stderr)
	var rows []harness.Row
	require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
	require.Len(t, rows, 1)
	require.Contains(t, stderr, "median")
}

// A file that cannot be written is an error before anything is measured.
func TestOutputsAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "no", "such")
	for _, args := range [][]string{
		{"-json", bad}, {"-markdown", bad}, {"-cpuprofile", bad}, {"-json", dir}, {"metg", "-json", bad}, {imbName, "-json", bad},
	} {
		status, stdout, stderr := runBench(t, nil, args...)
		require.Equal(t, exitUsage, status, args)
		require.Empty(t, stdout, args)
		require.Contains(t, stderr, args[len(args)-1])
	}
	kept := filepath.Join(dir, "kept")
	require.NoError(t, os.WriteFile(kept, []byte("x"), 0o600))
	require.NoError(t, checkOutputs("", standardOutput, kept, filepath.Join(dir, "new")))
	require.Equal(t, "x", string(readFile(t, kept)))
	require.NoFileExists(t, filepath.Join(dir, "new"))
}
