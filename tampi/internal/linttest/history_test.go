// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/race"
	"weft/task"
)

// Races whose two accesses are far apart. The race detector must still remember the first one.
var historyMistakes = []mistake{
	{"E1", "a race with many bodies in between", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		return farApart(t, right, 1, 200)
	}},
	{"E1", "a race over large data", []string{"DATA RACE", "@written", "@read"}, func(t *task.Task, right bool) error {
		return farApart(t, right, 100_000, 1)
	}},
}

// farApart spawns a body that writes n words, then others, then a body that reads the first word.
// All but the first are a chain.
func farApart(t *task.Task, right bool, n, others int) error {
	a, chain, written := make([]int, n), make([]int, 100), make(chan struct{})
	t.Spawn(func(*task.Task) error {
		for i := range a {
			a[i] = i // @written
		}
		runtime.RaceDisable()
		close(written)
		runtime.RaceEnable()
		return nil
	}, deps.Out(&a[0]))
	t.Spawn(func(t *task.Task) error {
		t.Blocking(func() { // an order that the race detector does not see
			runtime.RaceDisable()
			<-written
			runtime.RaceEnable()
		})
		return nil
	}, deps.InOut(&chain[0]))
	for range others {
		t.Spawn(func(*task.Task) error {
			for i := range chain {
				chain[i]++
			}
			return nil
		}, deps.InOut(&chain[0]))
	}
	t.Spawn(func(*task.Task) error {
		seen[0] = a[0] // @read
		return nil
	}, append(unless(right, deps.In(&a[0])), deps.In(&chain[0]))...)
	return nil
}

// A build for lint mode is in lint mode by default, with the longest possible history, and says so.
func TestLintBuildRunsByItself(t *testing.T) {
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, task.EnvLint+"=") || strings.HasPrefix(v, task.EnvDebug+"=") || strings.HasPrefix(v, race.EnvRace+"=")
	})
	start := func(env ...string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(slices.Clone(environ), env...)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	plain := envProgram + "=plain a race over large data"
	require.Contains(t, start(plain), "DATA RACE")
	require.Contains(t, start(plain), `made more than about 160000 others, or more than about 250 bodies ended (GORACE="history_size=7")`)
	require.Contains(t, start(plain, "GORACE=atexit_sleep_ms=0"), `(GORACE="atexit_sleep_ms=0 history_size=7")`)
	require.Contains(t, start(plain, "GORACE=history_size=0"), `made more than about 30000 others`)
	require.Equal(t, 1, strings.Count(start(plain), "lint mode"))
	require.NotContains(t, start(plain, "WEFT_LINT=0"), "lint mode")
	require.NotContains(t, start(plain, "WEFT_RANK=1"), "lint mode", "rank 0 says it")
}
