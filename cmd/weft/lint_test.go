// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/task"
)

func TestLintEnviron(t *testing.T) {
	for _, self := range []bool{false, true} {
		env, err := lintEnviron([]string{"GOFLAGS=-mod=readonly", "HOME=/h"}, self)
		require.NoError(t, err)
		flags := env[slices.IndexFunc(env[1:], func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })+1]
		require.True(t, strings.HasPrefix(flags, "GOFLAGS=-mod=readonly -race -tags=weftlint "), flags)
		require.Contains(t, env, "WEFT_LINT=1")
		require.Contains(t, env, "HOME=/h")
		for _, p := range task.LintPackages {
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
	require.Equal(t, 7, run([]string{"lint", "sh", "-c", "exit 7"}, &out, &errOut))
}
