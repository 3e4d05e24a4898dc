// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

func TestIMBInProcess(t *testing.T) {
	status, stdout, stderr := runBench(t, nil, "imb", "-n", "3", "PingPong", "-msglen", "0,1K", "allreduce", "-iter", "2")
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, "(?s)Benchmarking PingPong\n# #processes = 3.* 1024 .*Benchmarking Allreduce", stdout)
}

// A benchmark that needs more ranks is skipped, and the others are measured. A run that measures
// nothing fails.
func TestIMBWithTooFewRanks(t *testing.T) {
	status, stdout, stderr := runBench(t, nil, "imb", "-npmin", "1", "-n", "2", "-msglen", "8", "-iter", "2", "PingPong", "Bcast")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stderr, "PingPong: skipped with 1 ranks: it needs 2")
	require.Regexp(t, "(?s)Benchmarking Bcast\n# #processes = 1\n.*Benchmarking PingPong\n# #processes = 2\n.*Benchmarking Bcast\n# #processes = 2\n", stdout)
	status, _, stderr = runBench(t, nil, "imb", "-n", "1", "PingPong")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "nothing was measured")
}

// Outside the repository the programs that start ranks cannot be built, and the error says so.
func TestIMBElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	status, _, stderr := runBench(t, nil, "imb", "-fabric", "tcp", "-msglen", "8", "-iter", "2", "PingPong")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "in a directory of weft's repository")
}

func TestIMBOptions(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"Nothing"}, "Nothing"},
		{[]string{"-n", "-1"}, "-n -1"},
		{[]string{"-npmin", "4"}, "-npmin 4"},
		{[]string{"-msglen", "8,9Q"}, "9Q"},
		{[]string{"-msglen", "2000M"}, "2000M"},
		{[]string{"-msglog", "5:3"}, "5:3"},
		{[]string{"-fabric", "ether"}, "inproc"},
		{[]string{"-sync", "2"}, "-sync"},
		{[]string{"-iter", "0"}, "-iter"},
		{[]string{"-peer"}, "-peer"},
		{[]string{"-lines", "-fabric", "tcp"}, "-fabric: with -lines"},
		{[]string{"-lines", "-npmin", "1"}, "-npmin: with -lines"},
		{[]string{"-lines", "-peers", "-rounds", "2"}, "-peers: with -lines"},
		{[]string{"-lines", "-json", "-"}, "-json: with -lines"},
	} {
		status, _, stderr := runBench(t, nil, append([]string{"imb"}, c.args...)...)
		require.Equal(t, exitUsage, status, "%v", c.args)
		require.Contains(t, stderr, c.says)
	}
	sizes, err := parseMsglog("3:5")
	require.NoError(t, err)
	require.Equal(t, []int64{0, 8, 16, 32}, sizes)
	sizes, err = parseSizes("1M, 8,8")
	require.NoError(t, err)
	require.Equal(t, []int64{8, 1 << 20}, sizes)
	o, err := parseIMB([]string{"-n", "6", "-npmin", "2"}, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, []int{2, 4, 6}, o.ranks)
}

// One of several ranks refuses the options that only a run of the command obeys.
func TestIMBOptionsOfOneOfSeveralRanks(t *testing.T) {
	t.Setenv("WEFT_JOB", "1")
	for _, option := range []string{"-fabric=inproc", "-npmin=1", "-peers", "-rounds=2", "-json=-"} {
		status, _, stderr := runBench(t, nil, "imb", "-n", "2", option)
		require.Equal(t, exitUsage, status)
		name, _, _ := strings.Cut(option, "=")
		require.Contains(t, stderr, name+": this process has been started as one of several ranks")
	}
}

// requireNothingLeft ends a run, as a batch system would, while it measures.
func requireNothingLeft(t *testing.T, self string) {
	if runtime.GOOS == "windows" {
		return // Windows has no such signal
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), self, "imb", "-fabric", "tcp", "-msglen", "8", "-iter", "1000000000", "-vol", "1000000000000", "-time", "1000", "PingPong", "Bcast")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	for {
		if built, _ := filepath.Glob(filepath.Join(dir, "weft-bench-*", "weft")); len(built) > 0 {
			break
		}
		runtime.Gosched()
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, out)
	require.Error(t, cmd.Wait())
	left, err := filepath.Glob(filepath.Join(dir, "weft-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The whole command: built programs and a launcher, ranks as processes, and the other libraries if
// they are installed.
func TestIMBWithProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	dir := t.TempDir()
	self, rows := filepath.Join(dir, "bench"), filepath.Join(dir, "rows.json")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", self, "weft/bench").CombinedOutput()
	require.NoError(t, err, string(out))
	// Three ranks on fewer processors are too much for some of the others.
	out, err = exec.CommandContext(t.Context(), self, "imb", "-fabric", "tcp", "-n", "3", "-msglen", "8,100K", "-iter", "3", "Exchange").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "#processes = 3")
	requireNothingLeft(t, self)
	out, err = exec.CommandContext(t.Context(), self, "imb", "-n", "2", "-msglen", "8,100K", "-iter", "3", "-rounds", "1", "-peers",
		"-json", rows, "Allreduce", "Start", "Exchange").CombinedOutput()
	// A run of weft that does not end is a failure, whatever the other libraries do.
	require.NotRegexp(t, `weft-\S+: .*it was ended after`, string(out))
	if err != nil && strings.Contains(string(out), "it was ended after") {
		t.Skip("the other libraries, which spin, have too few processors here")
	}
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(rows)
	require.NoError(t, err)
	var got []harness.Row
	require.NoError(t, json.Unmarshal(text, &got))
	seen := map[string]int{}
	for _, r := range got {
		require.True(t, r.OK)
		require.Equal(t, 2, r.Ranks)
		require.Positive(t, r.Median)
		seen[r.Peer]++
	}
	require.Equal(t, 5, seen["weft-inproc"], "%v", seen)
	for peer, n := range seen {
		require.Equal(t, 5, n, peer)
	}
}
