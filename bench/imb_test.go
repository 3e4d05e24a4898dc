// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

func TestIMBInProcess(t *testing.T) {
	status, stdout, stderr := runBench(t, nil, "imb", "-n", "3", "PingPong", "-msglen", "0,1K", "allreduce", "-iter", "2")
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, "(?s)Benchmarking PingPong\n# #processes = 3.* 1024 .*Benchmarking Allreduce", stdout)
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

// The whole way: a launcher and programs that are built, ranks as processes, and the other libraries where they are installed.
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
	out, err = exec.CommandContext(t.Context(), self, "imb", "-n", "2", "-msglen", "8,100K", "-iter", "3", "-rounds", "1", "-peers",
		"-json", rows, "Allreduce", "Start", "Exchange").CombinedOutput()
	// A run of ours that does not end is a failure, whatever the others do.
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
