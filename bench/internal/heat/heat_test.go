// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package heat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

func TestParseRate(t *testing.T) {
	const line = "rows, 64, cols, 64, rows/rank, 64, total, 4096, total/rank, 4096, rbs, 16, cbs, 16, ranks, 1, threads, 2, timesteps, 10, time, 0.5, Mupdates/s, 81.92\n"
	v, err := parseRate("some words first, and a comma\n" + line + "verified\n")
	require.NoError(t, err)
	require.Equal(t, 81.92, v)
	for _, bad := range []string{"", "rows, 64, cols, 64\n", "rows, 64, Mupdates/s, fast\n", "rows, 64, Mupdates/s, 0\n", "rows, 64, Mupdates/s\n"} {
		_, err := parseRate(bad)
		require.Error(t, err, bad)
	}
}

// fake returns a Program that is a shell script.
func fake(t *testing.T, script string) *Program {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "heat")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return &Program{dir: dir, path: path}
}

func TestOutcomesOfARun(t *testing.T) {
	const result = "echo rows, 8, Mupdates/s, 12.5\n"
	v, err := fake(t, result).run(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, 12.5, v)

	v, err = fake(t, result+"echo 'cell (3,4) differs' >&2\nexit 1\n").run(t.Context(), 1, nil)
	require.ErrorIs(t, err, harness.ErrWrongAnswer)
	require.Equal(t, 12.5, v)

	_, err = fake(t, "echo 'no such variant' >&2\nexit 2\n").run(t.Context(), 1, nil)
	require.ErrorContains(t, err, "no such variant")
	require.NotErrorIs(t, err, harness.ErrWrongAnswer)

	_, err = fake(t, "echo hello\n").run(t.Context(), 1, nil)
	require.ErrorContains(t, err, "no line of results")

	// Every run checks its result, except a profiled run.
	p := fake(t, `case "$*" in *-cpuprofile*-check*) exit 3;; *-cpuprofile*|*-check*) `+result+`;; *) exit 4;; esac`)
	_, err = p.run(t.Context(), 1, nil)
	require.NoError(t, err)
	var profiles []string
	p.Profile = func(file string) { profiles = append(profiles, file) }
	_, err = p.run(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Len(t, profiles, 1)

	_, err = fake(t, `test "$GOMAXPROCS" = 3 && `+result).run(t.Context(), 3, nil)
	require.NoError(t, err)
}

func TestSequentialPeerIsThePlainLoop(t *testing.T) {
	p := fake(t, `
case "$*" in
*"-variant mpi -ranks 1 -workers 1 "*"-kernel row"*) echo rows, 8, Mupdates/s, 1 ;;
*-kernel*) exit 3 ;;
*"-ranks 2 -workers 4 "*) echo rows, 8, Mupdates/s, 2 ;;
*) exit 4 ;;
esac
`)
	for _, load := range Workloads(p)[:3] {
		for i, want := range []float64{2, 1} {
			probe, err := load.Peers[i].Open(t.Context(), harness.Params{Workers: 4, Ranks: 2, Size: 512})
			require.NoError(t, err)
			v, err := probe.Sample(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, v)
		}
	}
}
