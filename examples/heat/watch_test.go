// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	taskprofile "github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	eventcheck "weft/internal/event/check"
	"weft/internal/event/timeline"
)

// The statistics of a run have the right number of blocks, halos and steps.
func TestWatch(t *testing.T) {
	newTestDir(t)
	status, stdout, stderr := heatCommand("-size 64 -bs 16 -ranks 2 -workers 2 -timesteps 5 -nam-freq 0 -no-warmup -stats -taskprofile p.pb.gz -graph g.svg -http localhost:0")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stderr, "heat: the tasks are shown at http://127.0.0.1:")
	counts := map[string]string{}
	for line := range strings.Lines(stdout) {
		if f := strings.Fields(line); len(f) > 10 {
			n := len(f) - 10
			counts[strings.Join(f[:n], " ")] = f[n]
		}
	}
	require.Equal(t, "80", counts["block"])
	for _, halo := range []string{"send up", "send down", "recv from above", "recv from below"} {
		require.Equal(t, "20", counts[halo], halo)
	}
	f, err := os.Open("p.pb.gz")
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	p, err := taskprofile.Parse(f)
	require.NoError(t, err)
	require.Equal(t, "comm", p.SampleType[len(p.SampleType)-1].Type)
	svg, err := os.ReadFile("g.svg")
	require.NoError(t, err)
	require.Contains(t, string(svg), "162 tasks")

	status, _, stderr = heatCommand("-size 64 -t 2 -nam-freq 0 -graph g.dot")
	require.Equal(t, exitOK, status, stderr)
	dot, err := os.ReadFile("g.dot")
	require.NoError(t, err)
	require.Contains(t, string(dot), "digraph tasks {")
}

func TestWatchFlags(t *testing.T) {
	newTestDir(t)
	for line, text := range map[string]string{
		"-graph g.png":              "legal is the name of a file that ends in .svg or .dot",
		"-http 6060":                "legal is an address such as localhost:6060, or :0 for any free port",
		"-http nowhere.invalid:1":   "cannot serve the live page",
		"-variant mpi -stats":       "-stats needs tasks, but the variant mpi has none: legal are itampi and tampirma",
		"-taskprofile no/such/p.pb": "cannot write no/such/p.pb",
		"-variant mpi -http :0":     "-http needs tasks",
	} {
		status, _, stderr := heatCommand(line)
		require.Equal(t, exitUsage, status, line)
		require.Contains(t, stderr, text)
	}
}

// The recording of a run is legal, and so is its timeline.
func TestTrace(t *testing.T) {
	newTestDir(t)
	for _, line := range []string{"-variant tampirma", "-variant itampi -stats", "-variant mpi"} {
		status, stdout, stderr := heatCommand(line + " -size 64 -bs 16 -ranks 2 -timesteps 5 -nam-freq 2 -trace run.json")
		require.Equal(t, exitOK, status, stderr)
		require.Equal(t, strings.Contains(line, "-stats"), strings.Contains(stdout, "block"))
		_, partial, err := eventcheck.Files(eventcheck.Options{}, "run.json.weft")
		require.NoError(t, err, line)
		require.False(t, partial)
		f, err := os.Open("run.json")
		require.NoError(t, err)
		require.NoError(t, timeline.Verify(f), line)
		require.NoError(t, f.Close())
	}
	status, _, stderr := heatCommand("-size 64 -t 2 -nam-freq 0 -trace no/such/run.json")
	require.Equal(t, exitUsage, status)
	require.Contains(t, stderr, "no/such/run.json")
}

// Each process of a run has its own file names.
func TestNamesOfRanksFiles(t *testing.T) {
	for name, want := range map[string]string{"p.pb.gz": "p.rank3.pb.gz", "p": "p.rank3", "out.d/p": "out.d/p.rank3", "/x/g.svg": "/x/g.rank3.svg", "": ""} {
		require.Equal(t, want, (&watch{rank: 3}).own(name))
		require.Equal(t, name, (&watch{rank: -1}).own(name))
	}
}
