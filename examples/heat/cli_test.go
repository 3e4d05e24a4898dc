// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/gif"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/nam"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// heatCommand runs the program in this process. Words of line are separated by blanks.
func heatCommand(line string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = command(context.Background(), strings.Fields(line), &out, &errs)
	return status, out.String(), errs.String()
}

// newTestDir changes to a new directory, which also has the default store.
func newTestDir(t *testing.T) string {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("WEFT_NAM_DIR", filepath.Join(dir, "nam"))
	return dir
}

var (
	timeText  = regexp.MustCompile(`time, [0-9.]+, Mupdates/s, [0-9.]+`)
	ownWindow = regexp.MustCompile(`heat-[!-~]+-[0-9]+-[0-9]+`)
)

// golden compares a text with a file, without the parts that differ from run to run.
func golden(t *testing.T, name, dir, got string) {
	t.Helper()
	got = timeText.ReplaceAllString(got, "time, T, Mupdates/s, P")
	got = ownWindow.ReplaceAllString(got, "OWN-WINDOW")
	got = strings.ReplaceAll(got, dir, "DIR")
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// Exit status, stdout and stderr of typical calls, word for word.
func TestCommandLine(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	for name, lines := range map[string][]string{
		"line":    {"-size 64 -bs 16 -ranks 2 -workers 2 -timesteps 5 -nam-freq 0"},
		"mpi":     {"-variant mpi -size 64 -bs 16 -ranks 2 -timesteps 5 -nam-freq 0 -check"},
		"verbose": {"-v -variant tampirma -size 64 -bs 16 -workers 2 -timesteps 50"},
		"round":   {"-r 50 -c 40 -R 10 -C 16 -ranks 3 -workers 1 -t 12 -window w -check -gif g.gif"},
		"window": {
			"-size 32 -t 10 -workers 1 -window w",
			"-size 32 -t 10 -workers 1 -window w",
			"view -window w -gif w.gif",
			"view -window x",
			"-size 32 -t 10 -workers 1",
			"view",
		},
		"empty-store": {"view", "view -window w"},
		"errors": {
			"-foo", "-size many", "-variant omp", "-size 8 -bs 1 -wins 3", "-gif no/such/x.gif -t 1", "-o . -t 1",
			"-sources-file nowhere", "-rows 5", "-gif x -nam-freq 0", "view -foo", "view now",
		},
		"help": {"-h", "view -h"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newTestDir(t)
			var b strings.Builder
			for _, line := range lines {
				status, stdout, stderr := heatCommand(line)
				fmt.Fprintf(&b, "$ heat %s\n%s", line, stdout)
				if stderr != "" {
					fmt.Fprintf(&b, "--- stderr\n%s", stderr)
				}
				fmt.Fprintf(&b, "--- exit %d\n\n", status)
			}
			t.Chdir(home)
			golden(t, name, dir, b.String())
		})
	}
}

// Help works where the program cannot run, as under an srun without PMI.
func TestHelpWithoutALauncher(t *testing.T) {
	newTestDir(t)
	t.Setenv("SLURM_STEP_NUM_TASKS", "4")
	for line, help := range map[string]string{"-h": conf.Help, "view -h": conf.ViewHelp} {
		status, stdout, stderr := heatCommand(line)
		require.Equal(t, exitOK, status, stderr)
		require.Equal(t, help, stdout)
		require.Empty(t, stderr)
	}
	for _, line := range []string{"-size 8 -t 1", "view", "-foo"} {
		status, stdout, stderr := heatCommand(line)
		require.Equal(t, exitFailed, status, line)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "SLURM_STEP_NUM_TASKS")
	}
}

// smallBare returns the settings of a run without options, with small sizes.
func smallBare() (*conf.Run, error) {
	cfg, err := conf.Parse(nil, 0)
	if err != nil {
		return nil, err
	}
	cfg.Timesteps, cfg.Layout = 500, grid.Round(64, 64, 2, 16, 16)
	cfg.NamFreq, cfg.Workers = 25, 2
	return cfg, nil
}

// A small run without options is checked, prints what it did, and leaves a movie that changes over
// time.
func TestBareRun(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	dir := newTestDir(t)
	cfg, err := smallBare()
	require.NoError(t, err)
	require.True(t, cfg.Bare)
	var stdout, stderr bytes.Buffer
	require.NoError(t, runHeat(context.Background(), cfg, &stdout, &stderr))
	require.Empty(t, stderr.String())
	requireMovie(t, "heat.gif", 21)
	t.Chdir(home)
	golden(t, "bare", dir, stdout.String())
}

// requireMovie decodes a GIF, and requires that each frame differs from the one before it.
func requireMovie(t *testing.T, file string, frames int) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	g, err := gif.DecodeAll(f)
	require.NoError(t, err)
	require.Len(t, g.Image, frames)
	for i := 1; i < frames; i++ {
		require.NotEqual(t, g.Image[i-1].Pix, g.Image[i].Pix, "frame %d shows no change", i)
	}
	require.LessOrEqual(t, max(g.Config.Width, g.Config.Height), 512)
}

// Variants, ranks and snapshots together pass the check.
func TestCheckPasses(t *testing.T) {
	newTestDir(t)
	for _, variant := range conf.Variants {
		for _, ranks := range []int{1, 2, 3, 7} {
			for _, workers := range []int{1, 2, 4} {
				for _, freq := range []int{0, 3} {
					line := fmt.Sprintf("-variant %s -ranks %d -workers %d -r 70 -c 50 -R 9 -C 20 -t 10 -nam-freq %d -check", variant, ranks, workers, freq)
					status, _, stderr := heatCommand(line)
					require.Equal(t, exitOK, status, "%s\n%s", line, stderr)
					require.Contains(t, stderr, "check passed")
				}
			}
		}
	}
}

// One changed bit on one rank makes the check fail, with the cell and exit status 1.
func TestCheckFails(t *testing.T) {
	newTestDir(t)
	defer func(f func(*grid.Grid)) { afterSolve = f }(afterSolve)
	afterSolve = func(g *grid.Grid) {
		if g.Rank == 1 {
			g.Cells[g.At(3, 7)] += 1e-12
		}
	}
	for _, variant := range conf.Variants {
		status, stdout, stderr := heatCommand("-variant " + variant + " -size 60 -bs 10 -ranks 2 -t 4 -nam-freq 0 -check")
		require.Equal(t, exitFailed, status)
		require.Contains(t, stdout, "Mupdates/s")
		require.Contains(t, stderr, "check failed: row 33, column 7 differs from the sequential sweep: got ")
		require.NotContains(t, stderr, "passed")
	}
}

func TestOutputImage(t *testing.T) {
	newTestDir(t)
	status, _, stderr := heatCommand("-size 30 -bs 10 -ranks 3 -t 4 -nam-freq 0 -o out.ppm -check")
	require.Equal(t, exitOK, status, stderr)
	got, err := os.ReadFile("out.ppm")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	require.Equal(t, []string{"P3", "32 32", "255", "255 0 0"}, lines[:4], "the corner is the hottest")
	require.Len(t, lines, 3+32*32)
	require.Equal(t, "0 0 255", lines[3+15*32+15], "the middle is cold")
}

func TestCPUProfile(t *testing.T) {
	newTestDir(t)
	status, _, stderr := heatCommand("-size 30 -bs 10 -t 4 -nam-freq 0 -cpuprofile cpu.prof")
	require.Equal(t, exitOK, status, stderr)
	st, err := os.Stat("cpu.prof")
	require.NoError(t, err)
	require.Positive(t, st.Size())
}

// A file that cannot be written is reported once, and the exit status is that of a failure.
func TestFilesThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	newTestDir(t)
	for _, name := range []string{"-cpuprofile", "-taskprofile", "-trace", "-o"} {
		status, _, stderr := heatCommand("-size 30 -bs 10 -t 4 -nam-freq 0 " + name + " /dev/full")
		require.Equal(t, exitFailed, status, name)
		require.Contains(t, stderr, "/dev/full", name)
		require.Equal(t, 1, strings.Count(stderr, "no space left"), stderr)
	}
}

// An output that cannot be written is an error before the run. The check leaves files unchanged.
func TestOutputsAreCheckedFirst(t *testing.T) {
	newTestDir(t)
	require.NoError(t, os.WriteFile("kept", []byte("x"), 0o600))
	require.NoError(t, checkOutput("kept"))
	require.NoError(t, checkOutput("new"))
	require.NoFileExists(t, "new")
	text, err := os.ReadFile("kept")
	require.NoError(t, err)
	require.Equal(t, "x", string(text))
	long := strings.Repeat("x", 300) // no file system takes such a name
	for _, name := range []string{"-gif", "-o", "-cpuprofile", "-taskprofile"} {
		status, stdout, stderr := heatCommand("-size 16 -t 2 " + name + " " + long)
		require.Equal(t, exitUsage, status, name)
		require.Empty(t, stdout, name)
		require.Contains(t, stderr, "cannot write "+long, name)
	}
}

// A run that cannot print its result fails.
func TestResultThatCannotBeWritten(t *testing.T) {
	newTestDir(t)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, out.Close())
	defer in.Close()
	var stderr bytes.Buffer
	status := command(t.Context(), strings.Fields("-size 16 -t 2 -nam-freq 0"), in, &stderr)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr.String(), "broken pipe")
}

// heat view creates no store.
func TestViewMakesNoStore(t *testing.T) {
	newTestDir(t)
	for _, line := range []string{"view", "view -window w", "view -nam-dir nam"} {
		status, _, stderr := heatCommand(line)
		require.Equal(t, exitUsage, status)
		require.Contains(t, stderr, "no store in ")
	}
	require.NoDirExists(t, "nam")
}

func TestWhyAWindowCannotBeViewed(t *testing.T) {
	list := []*nam.Allocation{
		{Name: "a", State: "ready"}, {Name: "b", State: "creating", Creator: "heat[7]@host"}, {Name: "c", State: "deleting"}, {Name: "d", State: "ready"},
	}
	require.EqualError(t, noSuchWindow(list, "DIR", "x"), `no window "x" in DIR; the store has: a, d`)
	require.EqualError(t, noSuchWindow(list, "DIR", "b"), `window "b" in DIR is being created by heat[7]@host: try again later`)
	require.EqualError(t, noSuchWindow(list, "DIR", "c"), `no window "c" in DIR; the store has: a, d`)
	require.EqualError(t, noSuchWindow(list[1:3], "DIR", "x"), `no window "x" in DIR; the store has: none`)
}

// -progress without a terminal is quiet.
func TestProgressIsQuietWithoutTerminal(t *testing.T) {
	newTestDir(t)
	status, _, stderr := heatCommand("-size 40 -bs 10 -t 4 -nam-freq 0 -progress")
	require.Equal(t, exitOK, status)
	require.Empty(t, stderr)
}

// A cancelled run says so and ends.
func TestCancelledRun(t *testing.T) {
	newTestDir(t)
	for _, variant := range conf.Variants {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(fmt.Errorf("enough"))
		var out, errs bytes.Buffer
		status := command(ctx, strings.Fields("-size 64 -t 1000000 -nam-freq 0 -variant "+variant), &out, &errs)
		require.Equal(t, exitFailed, status)
		require.Contains(t, errs.String(), "enough")
	}
}
