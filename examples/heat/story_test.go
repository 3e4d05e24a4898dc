// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallBareRun is the program without options, with small sizes. It returns its exit status.
func smallBareRun() int {
	cfg, err := smallBare()
	if err == nil {
		err = runHeat(context.Background(), cfg, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "heat:", err)
		return exitFailed
	}
	return exitOK
}

// heatProcess runs the program as a process, as a user does: a run removes windows of processes
// that have ended.
func heatProcess(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+line, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "heat %s\n%s", line, out)
	return string(out)
}

// suggestions returns the commands that a run without options suggests, without their comments.
func suggestions(t *testing.T, out string) (lines []string) {
	t.Helper()
	_, rest, found := strings.Cut(out, "What to try next")
	require.True(t, found, out)
	for line := range strings.Lines(rest) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "go run ") {
			lines = append(lines, line)
		}
	}
	require.GreaterOrEqual(t, len(lines), 4, out)
	return lines
}

// A user who types the suggestions of a first run one after another meets no error, neither with
// these nor with the suggestions of the next run.
func TestSuggestionsInTheirOrder(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	dir := newTestDir(t)
	weft := filepath.Join(dir, "weft")
	build := exec.Command("go", "build", "-o", weft, "weft/cmd/weft")
	build.Dir = home
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	for range 2 {
		for _, line := range suggestions(t, heatProcess(t, "")) {
			if args, ok := strings.CutPrefix(line, "go run ./cmd/weft "); ok {
				out, err := exec.Command("sh", "-c", weft+" "+args).CombinedOutput()
				require.NoError(t, err, "%s\n%s", line, out)
				continue
			}
			args, ok := strings.CutPrefix(line, "go run ./examples/heat ")
			require.True(t, ok, line)
			if !strings.Contains(args, "view") && !strings.Contains(args, "-h") && !strings.Contains(args, "-size") {
				args += " -size 64 -timesteps 100" // the default takes seconds
			}
			heatProcess(t, args)
		}
	}
}
