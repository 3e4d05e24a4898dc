// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/observe"
	"weft/task"
)

// profileOf returns the profile that an observer writes.
func profileOf(t *testing.T, o *observe.Observer) *profile.Profile {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, o.WriteProfile(&b))
	p, err := profile.Parse(&b)
	require.NoError(t, err)
	return p
}

// trees returns the stacks of a profile's samples, one a line, outermost first, with the number of
// tasks. It leaves out frames outside the test.
func trees(t *testing.T, p *profile.Profile) map[string]int64 {
	t.Helper()
	m := map[string]int64{}
	for _, s := range p.Sample {
		var names []string
		for _, l := range slices.Backward(s.Location) {
			name := l.Line[0].Function.Name
			name = name[strings.LastIndexByte(name, '/')+1:]
			if len(names) == 0 && !strings.HasPrefix(name, "observe_test.Test") {
				continue
			}
			require.NotZero(t, l.Line[0].Line, name)
			require.NotEmpty(t, l.Line[0].Function.Filename, name)
			names = append(names, strings.TrimPrefix(name, "observe_test."))
		}
		key := strings.Join(names, " > ")
		require.NotContains(t, m, key, "one sample for each")
		m[key] = s.Value[0]
	}
	return m
}

func spawnLeaves(t *task.Task, n int, x *int) {
	for range n {
		t.SpawnWith(task.Attrs{Label: "leaf"}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
	}
}

func spawnInner(t *task.Task) error {
	x := new(int)
	spawnLeaves(t, 3, x)
	return t.Wait()
}

func unlabelled(t *task.Task) error {
	spawnLeaves(t, 2, new(int))
	return nil
}

func runMain(t *task.Task) error {
	for range 2 {
		t.SpawnWith(task.Attrs{Label: "inner"}, spawnInner)
	}
	t.Spawn(unlabelled)
	spawnLeaves(t, 5, new(int))
	t.SpawnWith(task.Attrs{Label: "now", Undeferred: true}, func(*task.Task) error { return nil })
	return nil
}

// The profile is a tree of calls: from the caller of Run, through the tasks that spawn, to each
// task. It does not depend on which task ran on top of which.
func TestStacks(t *testing.T) {
	for _, workers := range []int{1, 4} {
		o, err := observed(t, observe.Config{Stacks: true}, workers, runMain)
		require.NoError(t, err)
		require.Equal(t, map[string]int64{
			"TestStacks > observed > runMain":                                                     1,
			"TestStacks > observed > runMain > task inner":                                        2,
			"TestStacks > observed > runMain > task inner > spawnInner > spawnLeaves > task leaf": 6,
			"TestStacks > observed > runMain > unlabelled":                                        1,
			"TestStacks > observed > runMain > unlabelled > spawnLeaves > task leaf":              2,
			"TestStacks > observed > runMain > spawnLeaves > task leaf":                           5,
			"TestStacks > observed > runMain > task now":                                          1,
		}, trees(t, profileOf(t, o)))
		require.Contains(t, o.Stats().Label("leaf").Site, "stacks_test.go:", "one label, whatever the stacks")
		require.Equal(t, int64(13), o.Stats().Label("leaf").Tasks)
	}
}

// Without stacks, the profile has labels, and lines that spawn if they are traced, or else bodies.
func TestNoStacks(t *testing.T) {
	o, err := observed(t, observe.Config{}, 2, runMain)
	require.NoError(t, err)
	m := map[string]int64{}
	for _, s := range profileOf(t, o).Sample {
		m[s.Location[0].Line[0].Function.Name] += s.Value[0]
	}
	require.Equal(t, map[string]int64{"weft/observe_test.runMain": 1, "weft/observe_test.unlabelled": 1, "task inner": 2, "task leaf": 13, "task now": 1}, m)
}

// A recursion of tasks has a stack for each of its cycles, not one for each depth and path.
func TestStacksOfRecursion(t *testing.T) {
	var fib func(t *task.Task, n int) error
	fib = func(t *task.Task, n int) error {
		if n < 2 {
			return nil
		}
		t.SpawnWith(task.Attrs{Label: "fib"}, func(t *task.Task) error { return fib(t, n-1) })
		t.SpawnWith(task.Attrs{Label: "fib"}, func(t *task.Task) error { return fib(t, n-2) })
		return t.Wait()
	}
	for _, workers := range []int{1, 4} {
		o, err := observed(t, observe.Config{Stacks: true}, workers, func(t *task.Task) error { return fib(t, 12) })
		require.NoError(t, err)
		require.Empty(t, o.Stats().Notes)
		p := profileOf(t, o)
		n := int64(0)
		for _, s := range p.Sample {
			n += s.Value[0]
		}
		require.Equal(t, int64(465), n)
		require.LessOrEqual(t, len(p.Sample), 32, "of six ways to spawn, each at most once in a stack")
	}
}

// A program that spawns at each depth of a recursion of functions has a stack for each depth, so it
// has many.
func TestStacksAreBounded(t *testing.T) {
	var at func(t *task.Task, depth, way int)
	at = func(t *task.Task, depth, way int) {
		switch {
		case depth == 0:
			t.SpawnWith(task.Attrs{Label: "leaf"}, func(*task.Task) error { return nil })
		case way&1 == 0:
			at(t, depth-1, way>>1)
		default:
			at(t, depth-1, way>>1)
		}
	}
	const depth = 15
	o, err := observed(t, observe.Config{Stacks: true, Sample: 1}, 2, func(t *task.Task) error {
		for way := range 1 << depth {
			at(t, depth, way)
		}
		return nil
	})
	require.NoError(t, err)
	s := o.Stats()
	require.Len(t, s.Notes, 1)
	require.Contains(t, s.Notes[0], "times there was no room for the new stack of a spawn")
	require.Equal(t, int64(1<<depth), s.Label("leaf").Tasks)
}

// If tasks are sampled, the tree is the same, although the task that spawned is usually not
// recorded. Numbers are exact for tasks with only one stack.
func TestStacksSampled(t *testing.T) {
	o, err := observed(t, observe.Config{Stacks: true, Sample: 8}, 2, func(t *task.Task) error {
		for range 400 {
			t.SpawnWith(task.Attrs{Label: "inner"}, spawnInner)
		}
		spawnLeaves(t, 3000, new(int))
		return nil
	})
	require.NoError(t, err)
	m := trees(t, profileOf(t, o))
	const main = "TestStacksSampled > observed > TestStacksSampled.func1"
	require.Len(t, m, 4)
	require.Equal(t, int64(1), m[main])
	require.Equal(t, int64(400), m[main+" > task inner"])
	below, direct := m[main+" > task inner > spawnInner > spawnLeaves > task leaf"], m[main+" > spawnLeaves > task leaf"]
	require.Positive(t, below)
	require.Positive(t, direct)
	require.Equal(t, int64(4200), below+direct)
	require.Equal(t, int64(4200), o.Stats().Label("leaf").Tasks)
}

// The tasks of detached runs, recorded loops and failed runs have stacks as well.
func TestStacksOfOtherTasks(t *testing.T) {
	o, err := observe.New(observe.Config{Stacks: true})
	require.NoError(t, err)
	rt := task.New(task.Config{Workers: 2, Trace: o.Recorder()})
	d := rt.SpawnWith(t.Context(), task.Attrs{Label: "detached"}, func(t *task.Task) error {
		x := new(int)
		t.Iterate(5, func(it *task.Iteration) error {
			it.SpawnWith(task.Attrs{Label: "part"}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
			return nil
		})
		return nil
	})
	require.NoError(t, d.Wait(t.Context()))
	no := errors.New("no")
	require.ErrorIs(t, rt.Run(t.Context(), func(t *task.Task) error {
		t.SpawnWith(task.Attrs{Label: "bad"}, func(*task.Task) error { return no })
		return nil
	}), no)
	require.NoError(t, rt.Close())
	require.NoError(t, o.Close())
	m := trees(t, profileOf(t, o))
	require.Equal(t, int64(5), m["TestStacksOfOtherTasks > task detached > TestStacksOfOtherTasks.func1 > TestStacksOfOtherTasks.func1.1 > task part"], m)
	require.Equal(t, int64(1), m["TestStacksOfOtherTasks > TestStacksOfOtherTasks.func2 > task bad"], m)
}

// The tool shows callers, and the lines that spawn.
func TestStacksByTheTool(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	o, err := observed(t, observe.Config{Stacks: true}, 2, runMain)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tasks.pb.gz")
	var b bytes.Buffer
	require.NoError(t, o.WriteProfile(&b))
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	ask := func(args ...string) string {
		var errs strings.Builder
		cmd := exec.Command(tool, append(append([]string{"tool", "pprof", "-sample_index=tasks"}, args...), file)...)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, errs.String())
		require.Empty(t, errs.String())
		return string(out)
	}
	require.Regexp(t, `(?m) 18 +100%  weft/observe_test\.runMain$`, ask("-top", "-cum"))
	require.Regexp(t, `(?s) 13 +72.22% .*task leaf\n`, ask("-peek", "^task leaf$"))
	require.Regexp(t, `(?m)^ +\. +13 .*t\.SpawnWith\(task\.Attrs\{Label: "leaf"\}`, ask("-list", "spawnLeaves$"))
	require.Regexp(t, `(?m)^ +13 +13 .*SpawnWith\(task\.Attrs\{Label: "leaf"\}`, ask("-list", "^task leaf$"))
}
