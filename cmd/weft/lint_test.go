// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"weft/internal/race"

	"github.com/stretchr/testify/require"
)

func TestLintEnviron(t *testing.T) {
	for _, self := range []bool{false, true} {
		env, err := lintEnviron([]string{"GOFLAGS=-mod=readonly", "HOME=/h"}, self)
		require.NoError(t, err)
		flags := env[slices.IndexFunc(env[1:], func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })+1]
		require.True(t, strings.HasPrefix(flags, "GOFLAGS=-mod=readonly -race -tags=weftlint "), flags)
		require.Contains(t, env, "WEFT_LINT=1")
		require.Contains(t, env, "GORACE=history_size=7")
		require.Contains(t, env, "HOME=/h")
		for _, p := range race.Packages {
			require.Equal(t, !self, strings.Contains(flags, "-gcflags="+p+"=-race=false"), flags)
		}
		require.Equal(t, self, strings.Contains(flags, "-toolexec="), flags)
	}
}

func TestLintCompileArguments(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-o x -p weft/task -race " + compileMark + " a.go", "-o x -p weft/task -race -race=false a.go"},
		{"-o x -p weft/task_test -race " + compileMark + " a.go", "-o x -p weft/task_test -race a.go"},
		{"-o x -p weft/comm -race a.go", "-o x -p weft/comm -race a.go"},
		{"-V=full", "-V=full"},
		{compileMark + " -p", "-p"},
	} {
		require.Equal(t, c.want, strings.Join(compileArguments(strings.Fields(c.args)), " "))
	}
}

func TestLintUsage(t *testing.T) {
	var out, errOut strings.Builder
	require.Equal(t, exitUsage, run([]string{"lint"}, &out, &errOut))
	require.Contains(t, errOut.String(), "no command")
	errOut.Reset()
	require.Equal(t, exitUsage, run([]string{compileCommand}, &out, &errOut))
	require.Contains(t, errOut.String(), "no tool")
	errOut.Reset()
	errOut.Reset()
	require.Equal(t, 7, run([]string{"lint", "sh", "-c", "exit 7"}, &out, &errOut))
	require.Equal(t, "weft: lint: sh is not the go command: only programs that it builds with the go command are in lint mode\n", errOut.String())
}

// The user's own history_size stays.
func TestLintHistory(t *testing.T) {
	for old, want := range map[string]string{
		"":                                 "history_size=7",
		"halt_on_error=1":                  "halt_on_error=1 history_size=7",
		"history_size=2 atexit_sleep_ms=0": "history_size=2 atexit_sleep_ms=0",
	} {
		env, err := lintEnviron([]string{"GORACE=" + old}, false)
		require.NoError(t, err)
		require.Equal(t, "GORACE="+want, env[len(env)-1])
	}
}

// The tags of the user's programs stay.
func TestLintTags(t *testing.T) {
	for old, want := range map[string]string{
		"":                             " -tags=weftlint ",
		"-tags=mpi,slow -mod=mod":      " -tags=weftlint,mpi,slow ",
		"-mod=mod '--tags=mpi' -trace": " -tags=weftlint,mpi ",
	} {
		env, err := lintEnviron([]string{"GOFLAGS=" + old}, false)
		require.NoError(t, err)
		require.Contains(t, env[1], want)
	}
}

// A command that can run nothing in lint mode is refused. For a command that may run nothing, there
// is a remark.
func TestLintOfCommandsThatBuildNothing(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	out, err := exec.Command("go", "build", "-o", plain, "weft/examples/heat").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, c := range []struct{ line, remark, err string }{
		{"go run .", "", ""},
		{"go -C /tmp test ./...", "", ""},
		{"/usr/local/go/bin/go build", "", ""},
		{"go1.26.1 install", "", ""},
		{"go vet ./...", "", "go vet builds no program"},
		{"go", "", "go builds no program"},
		{"go -C x env", "", "legal are go run, go test, go build and go install"},
		{"ls", "ls is not the go command", ""},
		{"no-such-command-at-all", "", "executable file not found"},
		{plain, "", "is built without lint mode; build it by weft lint go build, or run it by weft lint go run"},
	} {
		remark, err := lintable(strings.Fields(c.line))
		if c.err == "" {
			require.NoError(t, err, c.line)
		} else {
			require.ErrorContains(t, err, c.err, c.line)
		}
		require.Equal(t, c.remark == "", remark == "", c.line)
		require.Contains(t, remark, c.remark)
	}
}

func TestWhatAProgramIsMadeFor(t *testing.T) {
	weft := []*debug.Module{{Path: "example.com/other"}, {Path: "weft"}}
	for _, c := range []struct {
		info       buildinfo.BuildInfo
		lint, uses bool
	}{
		{buildinfo.BuildInfo{Deps: weft}, false, true},
		{buildinfo.BuildInfo{Main: debug.Module{Path: "weft"}}, false, true},
		{buildinfo.BuildInfo{Deps: weft[:1]}, false, false},
		{buildinfo.BuildInfo{Settings: []debug.BuildSetting{{Key: "-race", Value: "true"}, {Key: "-tags", Value: "a,weftlint"}}}, true, false},
		{buildinfo.BuildInfo{Settings: []debug.BuildSetting{{Key: "-tags", Value: "weftlint"}}}, false, false},
		{buildinfo.BuildInfo{Settings: []debug.BuildSetting{{Key: "-race", Value: "true"}, {Key: "-tags", Value: "weftlinter"}}}, false, false},
	} {
		lint, uses := lintBuild(&c.info)
		require.Equal(t, c.lint, lint, "%+v", c.info)
		require.Equal(t, c.uses, uses, "%+v", c.info)
	}
}
