// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/examples/heat/internal/snapshot"
	"weft/internal/leaktest"
	"weft/nam"
)

// childEnv turns the test binary into the program, with the variable's words as arguments.
const childEnv = "HEAT_TEST_COMMAND"

func TestMain(m *testing.M) {
	if line, ok := os.LookupEnv(childEnv); ok {
		if line == "" {
			os.Exit(smallBareRun())
		}
		dieInTheMiddle()
		os.Exit(steady(context.Background(), strings.Fields(line)))
	}
	os.Exit(watched(func() int { return leaktest.Main(m) }))
}

// A run is killed by SIGKILL in the middle. During the run, and after its death, the second program
// makes a movie of the complete snapshots. The snapshots equal the sequential sweep, bit by bit.
func TestKilledRunLeavesCompleteSnapshots(t *testing.T) {
	for _, variant := range conf.Variants {
		t.Run(variant, func(t *testing.T) {
			newTestDir(t)
			store, err := nam.Open("", nam.Config{})
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()

			// So many steps take so long that the run cannot end before the kill.
			const freq, steps = 500, 400_000
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), fmt.Sprintf("%s=-variant %s -ranks 3 -size 96 -bs 16 -timesteps %d -nam-freq %d -window w", childEnv, variant, steps, freq))
			var errs strings.Builder
			child.Stderr = &errs
			require.NoError(t, child.Start())
			defer func() { _ = child.Process.Kill() }()
			require.Eventually(t, func() bool {
				a, err := store.Stat("w")
				return err == nil && a.Epochs >= 6
			}, time.Minute, 5*time.Millisecond, "no third snapshot: %s", &errs)

			if variant == conf.ITAMPI {
				// once is enough: the variant makes no difference to the reader
				status, stdout, stderr := heatCommand("view -window w -gif running.gif")
				require.Equal(t, exitOK, status, stderr)
				require.Contains(t, stdout, "(of 801 planned)")
			}
			require.NoError(t, child.Process.Kill())
			require.ErrorContains(t, child.Wait(), "killed")

			complete := requireSnapshots(t, store, "w", freq)
			require.GreaterOrEqual(t, complete, 3)
			require.Less(t, complete, 1+steps/freq)
			status, stdout, stderr := heatCommand("view -window w -gif killed.gif")
			require.Equal(t, exitOK, status, stderr)
			require.Contains(t, stdout, fmt.Sprintf("killed.gif: %d frames, one every %d steps, from window w (of 801 planned)", complete, freq))
			requireMovie(t, "killed.gif", complete)
		})
	}
}

// requireSnapshots compares all complete snapshots of a window with the sequential sweep.
func requireSnapshots(t *testing.T, store *nam.Store, name string, freq int) (complete int) {
	t.Helper()
	require.NoError(t, snapshot.Read(t.Context(), store, name, func(r *snapshot.Reader) error {
		l := r.Header.Layout
		require.Equal(t, freq, r.Header.Freq)
		complete = r.Complete
		l.Ranks = 1
		want := grid.New(l, 0)
		want.Init(conf.DefaultSources)
		for n := range r.Complete {
			got := make([]float64, l.Rows*l.Cols)
			if err := r.Rows(n, func(row, col int, cells []float64) { copy(got[row*l.Cols+col:], cells) }); err != nil {
				return err
			}
			if d := grid.Compare(got, want); d != nil {
				return fmt.Errorf("snapshot %d: %w", n, d)
			}
			for range freq {
				want.Sweep(kernel.Rows8)
			}
		}
		return nil
	}))
	return complete
}
