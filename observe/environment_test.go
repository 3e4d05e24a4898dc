// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event/check"
	"weft/internal/leaktest"
	"weft/observe"
	"weft/task"
	"weft/trace"
)

// asProgram is set if the test binary is to run as a program that observes itself.
const asProgram = "WEFT_TEST_OBSERVE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(leaktest.Main(m))
	}
	if err := observedProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// observedProgram samples its tasks. It also has a runtime that is not observed, and a second
// observer.
func observedProgram() error {
	o, err := observe.New(observe.Config{Sample: 4})
	if err != nil {
		return err
	}
	second, err := observe.New(observe.Config{})
	if err != nil {
		return err
	}
	for _, rec := range []task.Config{{Trace: o.Recorder()}, {}, {Trace: second.Recorder()}} {
		rec.Workers = 2
		rt := task.New(rec)
		err = errors.Join(err, rt.Run(context.Background(), func(t *task.Task) error {
			for range 100 {
				t.Spawn(func(*task.Task) error { return nil })
			}
			return nil
		}), rt.Close())
	}
	fmt.Print(o.Stats().Labels[0].Tasks+o.Stats().Labels[1].Tasks, second.Stats().Labels[0].Tasks+second.Stats().Labels[1].Tasks)
	return errors.Join(err, o.Close(), second.Close())
}

// A program that observes itself also writes the recording for WEFT_TRACE: of all its tasks, into
// one file.
func TestRecordingByTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	start := func(file string) (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asProgram+"=1", trace.EnvFile+"="+file)
		out, err := cmd.CombinedOutput()
		text := string(out)
		if strings.HasPrefix(text, "weft: lint mode: ") {
			// the first line of each program in lint mode
			_, text, _ = strings.Cut(text, "\n")
		}
		return text, err
	}
	out, err := start("")
	require.NoError(t, err, out)
	require.Equal(t, "101 101", out)
	out, err = start("run.weft")
	require.NoError(t, err, out)
	require.Equal(t, "202 101", out, "what is recorded into its file, the first observer sees")
	seen, partial, err := check.Files(check.Options{}, filepath.Join(dir, "run.weft"))
	require.NoError(t, err)
	require.False(t, partial)
	require.Greater(t, seen, 202*3, "of each task, at least that it was spawned, started and ended")
	out, err = start("no/such/run.weft")
	require.Error(t, err)
	require.Contains(t, out, `observe: environment variable WEFT_TRACE is "no/such/run.weft": open no/such/run.weft`)
	require.Contains(t, out, "legal are names of files that can be written")
}
