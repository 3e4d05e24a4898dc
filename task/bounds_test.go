// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/task/internal/say"
)

// Each setting of a runtime is legal up to its bounds, in a Config and in the environment. The
// error for an illegal value names the setting and the bounds.
func TestBoundsOfSettings(t *testing.T) {
	for _, row := range []struct {
		name  string
		cfg   Config
		legal bool
	}{
		{"Workers", Config{Workers: -1}, false},
		{"Workers", Config{Workers: 1}, true},
		{"Workers", Config{Workers: env.MaxWorkers}, true},
		{"Workers", Config{Workers: env.MaxWorkers + 1}, false},
		{"Window", Config{Window: math.MinInt}, true},
		{"Window", Config{Window: -1}, true},
		{"Window", Config{Window: 1}, false},
		{"Window", Config{Window: 2}, true},
		{"Window", Config{Window: env.MaxWindow}, true},
		{"Window", Config{Window: env.MaxWindow + 1}, false},
		{"Watchdog", Config{Watchdog: -1}, true},
		{"Watchdog", Config{Watchdog: 1}, false},
		{"Watchdog", Config{Watchdog: watchLeast - 1}, false},
		{"Watchdog", Config{Watchdog: watchLeast}, true},
		{"Watchdog", Config{Watchdog: watchMost}, true},
		{"Watchdog", Config{Watchdog: watchMost + 1}, false},
	} {
		c, err := row.cfg.withDefaults()
		if !row.legal {
			require.ErrorContains(t, err, "Config."+row.name+" is ")
			require.ErrorContains(t, err, "; legal are ")
			continue
		}
		require.NoError(t, err, row)
		require.GreaterOrEqual(t, c.Watchdog, time.Duration(0))
	}
	for _, row := range []struct {
		name  string
		value string
		legal bool
	}{
		{EnvWorkers, "0", false},
		{EnvWorkers, "1", true},
		{EnvWorkers, strconv.Itoa(env.MaxWorkers), true},
		{EnvWorkers, strconv.Itoa(env.MaxWorkers + 1), false},
		{EnvWorkers, "", true},
		{EnvWindow, "1", false},
		{EnvWindow, "2", true},
		{EnvWindow, strconv.Itoa(env.MaxWindow), true},
		{EnvWindow, strconv.Itoa(env.MaxWindow + 1), false},
		{EnvDebug, "-1", false},
		{EnvDebug, "0", true},
		{EnvDebug, "1", true},
		{EnvDebug, "2", false},
		{EnvLint, "-1", false},
		{EnvLint, "0", true},
		{EnvLint, "2", false},
		{env.DeadlockWarnings.Name, "-2", false},
		{env.DeadlockWarnings.Name, "-1", true},
		{env.DeadlockWarnings.Name, "0", true},
		{env.DeadlockWarnings.Name, "1.5", false},
		{EnvWatchdog, "0", true},
		{EnvWatchdog, "-1ms", false},
		{EnvWatchdog, (watchLeast - 1).String(), false},
		{EnvWatchdog, watchLeast.String(), true},
		{EnvWatchdog, watchMost.String(), true},
		{EnvWatchdog, (watchMost + 1).String(), false},
	} {
		t.Run(fmt.Sprintf("%s=%s", row.name, row.value), func(t *testing.T) {
			t.Setenv(row.name, row.value)
			_, err := Config{}.withDefaults()
			if row.legal {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, fmt.Sprintf("environment variable %s=%q; ", row.name, row.value))
		})
	}
}

// The error of a run that ends early lists a bounded number of waiting tasks, or of lines of a
// watchdog, and says how much it leaves out.
func TestLengthOfWhatWaits(t *testing.T) {
	skipInLintMode(t, "the goroutine that reads the tasks is not a body")
	for _, n := range []int{1, maxWaits, maxWaits + 1, maxWaits + 5} {
		rt := newTestRuntime(t, Config{Workers: 1})
		lines := waitsOf(t, rt, n)
		require.Len(t, lines, min(n, maxWaits+1))
		if n > maxWaits {
			require.Equal(t, fmt.Sprintf("and %d more tasks wait", n-maxWaits), lines[maxWaits])
		}
		require.Contains(t, lines[0], " waits in Block") // the main task's is Blocking
	}
	rt := newTestRuntime(t, Config{Workers: 1, Watchdog: time.Hour})
	long := len(waitsOf(t, rt, 20))
	per := (len(waitsOf(t, rt, 40)) - long) / 20
	require.Positive(t, per)
	for n := 40; ; n++ {
		lines := waitsOf(t, rt, n)
		if full := long + per*(n-20); full <= maxDumped {
			require.Len(t, lines, full)
			continue
		}
		require.Len(t, lines, maxDumped+1)
		require.Equal(t, "and more", lines[maxDumped])
		break
	}
}

// waitsOf returns the lines about a runtime in which n tasks wait, one of them the main task.
func waitsOf(t *testing.T, rt *Runtime, n int) (lines []string) {
	t.Helper()
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		tasks := make([]*Task, 0, n)
		for range n - 1 {
			t.Spawn(func(t *Task) error {
				tasks = append(tasks, t)
				return t.Block()
			})
		}
		t.Blocking(func() {
			until(func() bool { return rt.atRest() && len(tasks) == n-1 })
			until(func() bool { // a body gives up its slot before it publishes that it sleeps
				asleep := 0
				eachParked(func(k *parked) {
					if k.t != nil && k.t.run.rt == rt {
						asleep++
					}
				})
				return asleep == n
			})
			lines = rt.describeWaits()
		})
		for _, x := range tasks {
			x.Unblock()
		}
		return t.Wait()
	}))
	return lines
}

// Reports count in English.
func TestReportsCount(t *testing.T) {
	for n, want := range map[int][2]string{0: {"0 are idle", "0 slots"}, 1: {"1 is idle", "1 slot"}, 2: {"2 are idle", "2 slots"}} {
		require.Equal(t, want, [2]string{say.Count(n, "is idle", "are idle"), say.Plural(n, "slot")})
	}
}
