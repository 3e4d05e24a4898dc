// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/deps"
	"weft/internal/event/check"
	"weft/internal/event/timeline"
	"weft/internal/leaktest"
	"weft/tampi"
	"weft/task"
	"weft/trace"
)

// asProgram is set if the test binary is to run as the unchanged program.
const asProgram = "WEFT_TEST_TRACE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(leaktest.Main(m))
	}
	for range 2 { // two runtimes, one after the other
		if err := program(nil); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
}

// program runs two ranks whose tasks exchange messages. Some tasks bind their requests, others wait
// for them. A collective follows.
func program(rec *trace.Recorder) error {
	rt := task.New(task.Config{Workers: 2, Trace: rec})
	err := comm.Run(context.Background(), comm.Config{Ranks: 2, Trace: rec}, func(c *comm.Comm) error {
		return tampi.Run(rt, c, func(t *task.Task) error {
			var in, out [100]int
			var sum int
			peer := 1 - c.Rank()
			for i := range in {
				t.SpawnWith(task.Attrs{Label: "send"}, func(t *task.Task) error { return tampi.Iwait(t, c.Issend(comm.Of(out[i:i+1]), peer, i)) }, deps.In(&out[i]))
				if i%2 == 0 {
					t.SpawnWith(task.Attrs{Label: "receive"}, func(t *task.Task) error { return tampi.Iwait(t, c.Irecv(comm.Of(in[i:i+1]), peer, i)) }, deps.Out(&in[i]))
				} else {
					t.SpawnWith(task.Attrs{Label: "wait"}, func(t *task.Task) error {
						_, err := tampi.Recv(t, c, comm.Of(in[i:i+1]), comm.AnySource, i)
						return err
					}, deps.Out(&in[i]))
				}
				t.SpawnWith(task.Attrs{Label: "add"}, func(*task.Task) error { sum += in[i]; return nil }, deps.In(&in[i]), deps.InOut(&sum))
			}
			if err := t.Wait(); err != nil {
				return err
			}
			return tampi.Barrier(t, c)
		})
	})
	return errors.Join(err, rt.Close())
}

func verify(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, timeline.Verify(f))
}

func TestRecording(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	rec, err := trace.New(trace.Options{File: file})
	require.NoError(t, err)
	require.NoError(t, program(rec))
	require.NoError(t, rec.Close())
	require.Zero(t, rec.Lost())
	seen, partial, err := check.Files(check.Options{}, file+".weft")
	require.NoError(t, err)
	require.False(t, partial)
	require.Greater(t, seen, 2000)
	verify(t, file)
}

// A program without code for traces writes a complete recording.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	start := func(env ...string) (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), append(env, asProgram+"=1")...)
		out, err := cmd.CombinedOutput()
		text := string(out)
		if strings.HasPrefix(text, "weft: lint mode: ") {
			// the first line of each program in lint mode
			_, text, _ = strings.Cut(text, "\n")
		}
		return text, err
	}
	out, err := start(trace.EnvFile + "=run.json")
	require.NoError(t, err, out)
	_, partial, err := check.Files(check.Options{}, filepath.Join(dir, "run.json.weft"))
	require.NoError(t, err)
	require.False(t, partial)
	verify(t, filepath.Join(dir, "run.json"))

	out, err = start(trace.EnvFile + "=no/such/run.weft")
	require.Error(t, err)
	require.Contains(t, out, `environment variable WEFT_TRACE is "no/such/run.weft": trace: open no/such/run.weft`)
	require.Contains(t, out, "legal are names of files that can be written")

	if _, err := os.Stat(full); err == nil {
		out, err = start(trace.EnvFile + "=" + full)
		require.NoError(t, err, out)
		require.Equal(t, "weft: WEFT_TRACE=/dev/full: the recording is incomplete: write /dev/full: no space left on device\n", out, "once, although the program has no code for traces")
	}
}

// full is a device to which every write fails, on systems that have one.
const full = "/dev/full"

// Each call of Close returns the error of the file.
func TestFileThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	rec, err := trace.New(trace.Options{File: full})
	require.NoError(t, err)
	require.NoError(t, program(rec))
	require.EqualError(t, rec.Close(), "write /dev/full: no space left on device")
	require.EqualError(t, rec.Close(), "write /dev/full: no space left on device", "and again")
}

func TestNoFile(t *testing.T) {
	_, err := trace.New(trace.Options{})
	require.EqualError(t, err, "trace: Options.File is empty; it names the file to be written")
	before := filepath.Join(t.TempDir(), "x.weft")
	require.NoError(t, os.WriteFile(before, []byte("another recording"), 0o600))
	_, err = trace.New(trace.Options{File: before, Ring: 3})
	require.ErrorContains(t, err, "a ring of 3 records; legal are powers of two")
	content, err := os.ReadFile(before)
	require.NoError(t, err)
	require.Equal(t, "another recording", string(content), "illegal options do not change the file")
}
