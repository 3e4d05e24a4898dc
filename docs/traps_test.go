// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/task"
)

// The traps of the page, as the program in testdata/traps has them: what debug mode says of each,
// if it says anything, and whether lint mode sees a race. The page has the same table.
var traps = []struct {
	name, debug string
	lint        bool
}{
	{"loop", "two tasks name copies of one variable", true},
	{"values", "", false},
	{"header", "a task names a slice, and another one its elements", true},
	{"local", "", true},
	{"parameter", "two tasks name copies of one variable", true},
	{"undeclared", "", true},
	{"writes", "", true},
	{"wait", "", true},
}

// Each mistake is found by what the page says, and its right form by nothing. Where the tests are
// run by weft lint, the program is built for lint mode, too.
func TestTraps(t *testing.T) {
	if testing.Short() && os.Getenv(task.EnvLint) == "" {
		t.Skip("builds programs")
	}
	program := filepath.Join(t.TempDir(), "traps")
	out, err := exec.Command("go", "build", "-o", program, "./testdata/traps").CombinedOutput()
	require.NoError(t, err, "%s", out)
	page, err := os.ReadFile("guide/traps.md")
	require.NoError(t, err)
	linted := os.Getenv(task.EnvLint) == "1"
	run := func(name string) string {
		cmd := exec.CommandContext(t.Context(), program, name)
		cmd.Env = append(os.Environ(), task.EnvDebug+"=1", "GORACE=history_size=7 atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil && !linted { // which ends with 66
			require.NoError(t, err, "%s\n%s", name, out)
		}
		return string(out)
	}
	cell := func(is bool) string {
		if is {
			return "yes"
		}
		return "–"
	}
	for _, c := range traps {
		out := run(c.name)
		if c.debug == "" {
			require.NotContains(t, out, "level=WARN", c.name)
		} else {
			require.Equal(t, 1, strings.Count(out, c.debug), "%s: %s", c.name, out)
			require.Equal(t, 1, strings.Count(out, "level=WARN"), "%s: %s", c.name, out)
		}
		if linted {
			require.Equal(t, c.lint, strings.Contains(out, "DATA RACE"), "%s: %s", c.name, out)
		}
		right := run(c.name + " right")
		require.NotContains(t, right, "level=WARN", c.name)
		require.NotContains(t, right, "DATA RACE", c.name)
		require.Regexp(t, fmt.Sprintf(`\| \[?%s\b.*\| [a-z–]+ \| %s \| %s \|`, c.name, cell(c.debug != ""), cell(c.lint)), string(page), "the table")
	}
}

// weft vet finds the lines that are marked, and no other.
func TestVetFindsTheTraps(t *testing.T) {
	if testing.Short() || os.Getenv(task.EnvLint) == "1" {
		t.Skip("builds programs")
	}
	weft := filepath.Join(t.TempDir(), "weft")
	out, err := exec.Command("go", "build", "-o", weft, "weft/cmd/weft").CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile("testdata/traps/main.go")
	require.NoError(t, err)
	var want, got []string
	for i, line := range strings.Split(string(text), "\n") {
		if _, name, found := strings.Cut(line, "// vet: "); found {
			want = append(want, fmt.Sprintf("%d %s", i+1, name))
		}
	}
	for _, name := range []string{"loopvar", "header", "copied", "undeclared"} {
		out, _ := exec.Command(weft, "vet", "-"+name, "./testdata/traps").CombinedOutput()
		for _, m := range regexp.MustCompile(`main\.go:(\d+):`).FindAllStringSubmatch(string(out), -1) {
			got = append(got, m[1]+" "+name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}
