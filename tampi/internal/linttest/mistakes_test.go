// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/leaktest"
	"weft/task"
)

// These are programs with one mistake each, of the seven classes of the linter of OmpSs-2. The test
// binary starts itself to run each program, and each mistake must be reported. wants has the parts
// of the report: for a race, the two lines of the accesses, which comments mark; else a text. Each
// program has a twin without the mistake, which must be clean.

type mistake struct {
	class string
	name  string
	wants []string // a word that begins with @ is the mark of a line in this package
	body  func(t *task.Task, right bool) error
}

// seen receives values that bodies read, so that the reads are not removed.
var seen [64]int

// unless returns accs if right, and none otherwise.
func unless(right bool, accs ...deps.Access) []deps.Access {
	if right {
		return accs
	}
	return nil
}

var mistakes = slices.Concat(objectMistakes, rangeMistakes, messageMistakes, historyMistakes)

var objectMistakes = []mistake{
	{"E1", "a missing In", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x int
		t.Spawn(func(*task.Task) error {
			x = 1 // @written
			return nil
		}, deps.Out(&x))
		t.Spawn(func(*task.Task) error {
			seen[0] = x // @read
			return nil
		}, unless(right, deps.In(&x))...)
		return nil
	}},
	{"E1", "a missing Out", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x, y int
		t.Spawn(func(*task.Task) error {
			x = 1
			y = 1 // @written
			return nil
		}, append(unless(right, deps.Out(&y)), deps.Out(&x))...)
		t.Spawn(func(*task.Task) error {
			seen[1] = y // @read
			return nil
		}, deps.In(&y))
		return nil
	}},
	{"E1", "an In that writes", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x int
		a := deps.In(&x)
		if right {
			a = deps.InOut(&x)
		}
		t.Spawn(func(*task.Task) error {
			x++ // @written
			return nil
		}, a)
		t.Spawn(func(*task.Task) error {
			seen[2] = x // @read
			return nil
		}, deps.In(&x))
		return nil
	}},
	{"E1", "a Concurrent without a lock", []string{"DATA RACE", "@added"}, func(t *task.Task, right bool) error {
		var x int
		a := deps.Concurrent(&x)
		if right {
			a = deps.Commutative(&x)
		}
		for range 2 {
			t.Spawn(func(*task.Task) error {
				x++ // @added
				return nil
			}, a)
		}
		return nil
	}},
	{"E1", "in a recorded loop", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x int
		t.Iterate(3, func(it *task.Iteration) error {
			it.Spawn(func(*task.Task) error {
				x++ // @written
				return nil
			}, deps.InOut(&x))
			it.Spawn(func(*task.Task) error {
				seen[4] += x // @read
				return nil
			}, append(unless(right, deps.In(&x)), deps.InOut(&seen[4]))...)
			return nil
		}, deps.InOut(&x), deps.InOut(&seen[4]))
		return nil
	}},
	{"E1", "in a goroutine that ends an event", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x int
		t.Spawn(func(t *task.Task) error {
			end := t.Hold()
			go func() {
				x = 1 // @written
				end(nil)
			}()
			return nil
		}, deps.Out(&x))
		t.Spawn(func(*task.Task) error {
			seen[5] = x // @read
			return nil
		}, unless(right, deps.In(&x))...)
		return nil
	}},
	{"E2", "declared and never used", []string{"never uses what it has declared: InOut(0x", "@idle"}, func(t *task.Task, right bool) error {
		var x, y int
		t.Spawn(func(t *task.Task) error { // @idle
			t.Uses(deps.InOut(&x))
			x++
			if right {
				t.Uses(deps.InOut(&y))
				y++
			}
			return nil
		}, deps.InOut(&x), deps.InOut(&y))
		return nil
	}},
	{"E3", "a child that its parent does not cover", []string{"DATA RACE|conflicting accesses that nothing orders", "@written|has not declared it", "@read|In(0x"}, func(t *task.Task, right bool) error {
		var x int
		t.Spawn(func(t *task.Task) error {
			t.Spawn(func(*task.Task) error {
				x = 1 // @written
				return nil
			}, deps.Out(&x))
			return nil
		}, unless(right, deps.Out(&x).Weak())...)
		t.Spawn(func(*task.Task) error {
			seen[6] = x // @read
			return nil
		}, deps.In(&x))
		return nil
	}},
	{"E4", "a weak access that no child uses", []string{"no child uses what it has declared: In(0x", "@weak"}, func(t *task.Task, right bool) error {
		var x int
		t.Spawn(func(t *task.Task) error { // @weak
			if right {
				t.Spawn(func(*task.Task) error { seen[7] = x; return nil }, deps.In(&x))
			}
			return nil
		}, deps.In(&x).Weak())
		return nil
	}},
	{"E5", "a missing Wait", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x int
		t.Spawn(func(*task.Task) error {
			x = 1 // @written
			return nil
		}, deps.Out(&x))
		if right {
			if err := t.Wait(); err != nil {
				return err
			}
		} else {
			t.Blocking(runtime.Gosched)
		}
		seen[8] = x // @read
		return nil
	}},
	{"E5", "a WaitOn for something else", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		var x, y int
		t.Spawn(func(*task.Task) error {
			x = 1 // @written
			return nil
		}, deps.Out(&x))
		on := &y
		if right {
			on = &x
		}
		if err := t.WaitOn(deps.In(on)); err != nil {
			return err
		}
		seen[9] = x // @read
		return nil
	}},
	{"E6", "a use after Release", []string{"DATA RACE", "@late", "@next"}, func(t *task.Task, right bool) error {
		var x int
		t.Spawn(func(t *task.Task) error {
			x = 1
			if err := t.Release(deps.InOut(&x)); err != nil {
				return err
			}
			if !right {
				x = 2 // @late
			}
			return nil
		}, deps.InOut(&x))
		t.Spawn(func(*task.Task) error {
			seen[10] = x // @next
			return nil
		}, deps.In(&x))
		return nil
	}},
	{"E7", "a Release of an undeclared access", []string{"Release of InOut(0x", "the task has not declared", "@releases"}, func(t *task.Task, right bool) error {
		var x, y int
		t.Spawn(func(t *task.Task) error { // @releases
			a := &y
			if right {
				a = &x
			}
			return t.Release(deps.InOut(a))
		}, deps.InOut(&x))
		return nil
	}},
}

const envProgram = "WEFT_TEST_MISTAKE"

// TestMain runs a program instead of the tests if the environment names one.
func TestMain(m *testing.M) {
	name, ok := os.LookupEnv(envProgram)
	if !ok {
		os.Exit(leaktest.Main(m))
	}
	name, right := strings.CutPrefix(name, "right ")
	// the build decides whether the program is in lint mode
	name, plain := strings.CutPrefix(name, "plain ")
	for _, x := range append(mistakes, twoAtOnce) {
		if x.name != name {
			continue
		}
		for _, workers := range []int{1, 3} {
			cfg := task.Config{Workers: workers}
			if !plain {
				cfg.Lint, cfg.Debug, cfg.Logger = true, true, slog.New(slog.NewTextHandler(os.Stderr, nil))
			}
			rt := task.New(cfg)
			if err := rt.Run(context.Background(), func(t *task.Task) error { return x.body(t, right) }); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			_ = rt.Close()
		}
	}
	os.Exit(0) // the race detector makes it 66 after a race
}

// source has the lines of this package's test files, beginning with the lines of a mistake.
type source []line

type line struct{ at, text string }

func find(t *testing.T, name string) source {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var all source
	from := -1
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, l := range strings.Split(string(text), "\n") {
			if strings.Contains(l, `"`+name+`", []string`) {
				from = len(all)
			}
			all = append(all, line{fmt.Sprintf("%s:%d", file, i+1), l})
		}
	}
	require.GreaterOrEqual(t, from, 0, "no file has %q", name)
	return slices.Concat(all[from:], all[:from])
}

// mark returns the first line that has a mark.
func (s source) mark(t *testing.T, name string) string {
	t.Helper()
	for _, l := range s {
		if strings.HasSuffix(l.text, "// "+name) {
			return l.at
		}
	}
	t.Fatalf("no line is marked %s", name)
	return ""
}

func TestMistakes(t *testing.T) {
	classes := map[string]bool{}
	for _, x := range mistakes {
		classes[x.class] = true
		t.Run(x.class+" "+x.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, x.name)
			require.NotContains(t, out, "panic", out)
			at := find(t, x.name)
			for _, want := range x.wants {
				found := false
				for w := range strings.SplitSeq(want, "|") {
					if strings.HasPrefix(w, "@") {
						w = at.mark(t, w)
					}
					found = found || strings.Contains(out, w)
				}
				require.True(t, found, "%q is not in:\n%s", want, out)
			}
			if strings.HasPrefix(x.wants[0], "DATA") {
				require.Error(t, err)
			}
			out, err = run(t, "right "+x.name)
			require.NoError(t, err, out)
			start, rest, _ := strings.Cut(out, "\n")
			require.Contains(t, start, "lint mode")
			require.Empty(t, rest)
		})
	}
	require.Len(t, classes, 7)
}

func run(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), envProgram+"="+name), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), err
}
