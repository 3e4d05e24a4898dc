// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/observe"
	"weft/task"
)

// labelsHere returns the labels of all goroutines that have some, from the profile of goroutines.
func labelsHere(t *testing.T) string {
	var b bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
	var list []string
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "# labels:") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return strings.Join(list, "\n")
}

// The goroutine of a body has the label of the innermost task that runs on it. This is so also
// after a wait in which other bodies ran on top.
func TestAnnotate(t *testing.T) {
	skipInLintMode(t)
	var inner, outer, after string
	_, err := observed(t, observe.Config{Annotate: true}, 1, func(tk *task.Task) error {
		tk.SpawnWith(task.Attrs{Label: "outer"}, func(tk *task.Task) error {
			tk.SpawnWith(task.Attrs{Label: "inner", Undeferred: true}, func(*task.Task) error {
				inner = labelsHere(t)
				return nil
			})
			outer = labelsHere(t)
			return tk.Await(func(done func()) { go done() })
		})
		if err := tk.Wait(); err != nil {
			return err
		}
		after = labelsHere(t)
		return nil
	})
	require.NoError(t, err)
	require.Contains(t, inner, `"task":"inner"`)
	require.NotContains(t, inner, `"task":"outer"`)
	require.Contains(t, outer, `"task":"outer"`)
	require.NotContains(t, outer, `"task":"inner"`)
	require.Contains(t, after, `"task":"observe_test.TestAnnotate.func1"`)
	require.NotContains(t, after, `"task":"inner"`)
}

// While a runtime trace is taken, bodies are regions, however they end.
func TestAnnotateRegions(t *testing.T) {
	skipInLintMode(t)
	if trace.IsEnabled() {
		t.Skip("a trace is being taken of the test")
	}
	var b bytes.Buffer
	require.NoError(t, trace.Start(&b))
	_, err := observed(t, observe.Config{Annotate: true}, 2, func(tk *task.Task) error {
		tk.SpawnWith(task.Attrs{Label: "a region of its own"}, func(tk *task.Task) error {
			return tk.Await(func(done func()) { go done() })
		})
		if err := tk.Wait(); err != nil {
			return err
		}
		tk.SpawnWith(task.Attrs{Label: "panics"}, func(tk *task.Task) error { panic("no") })
		return nil
	})
	trace.Stop()
	require.ErrorContains(t, err, "no")
	require.Contains(t, b.String(), "panics")
	gocmd, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the trace is not checked with Go's tool, because there is no go command")
	}
	file := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	out, err := exec.Command(gocmd, "tool", "trace", "-d=parsed", file).CombinedOutput()
	require.NoError(t, err, string(out))
	var kinds []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, `"a region of its own"`) {
			kinds = append(kinds, regexp.MustCompile(`Region(Begin|End)`).FindString(line))
		}
	}
	require.Equal(t, []string{"RegionBegin", "RegionEnd"}, kinds, "the region ends after the wait")
}

func skipInLintMode(t *testing.T) {
	t.Helper()
	if os.Getenv(task.EnvLint) == "1" {
		t.Skip("lint mode does not annotate: each body has a goroutine of its own there, and they would meet in Go's own tools")
	}
}
