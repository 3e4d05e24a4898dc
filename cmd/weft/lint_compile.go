// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os/exec"
	"slices"

	"weft/internal/race"

	"github.com/spf13/cobra"
)

// The go command gives the external tests of a package the flags that are meant for the package. What is compiled without the race detector cannot
// be judged; and what it has of generic code with atomic operations in it, such as sync.Map's, replaces in the program that of all other packages, which
// then has a sync.Map that orders nothing. So "weft lint --self" marks the packages, and stands between the go command and its compiler.

const (
	compileCommand = "lint-compile" // what the go command runs in place of a tool

	// compileMark is in the arguments of a package that is left out, and of its tests. The compiler does not know it, and what is
	// compiled with it is in a cache under it.
	compileMark = "-weft-lint-self"
)

func newLintCompile() *cobra.Command {
	return &cobra.Command{
		Use:                compileCommand + " TOOL [ARGUMENTS]",
		Short:              "Run a tool of the go command, for lint --self",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no tool; this command is for the go command's -toolexec")}
			}
			return runTool(cmd, exec.CommandContext(cmd.Context(), args[0], compileArguments(args[1:])...))
		},
	}
}

// compileArguments replaces the mark in the arguments of a compiler: the race detector leaves the package out, but not its tests.
func compileArguments(args []string) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		if a != compileMark {
			out = append(out, a)
			continue
		}
		if p := slices.Index(args, "-p"); p >= 0 && p+1 < len(args) && slices.Contains(race.Packages, args[p+1]) {
			out = append(out, "-race=false")
		}
	}
	return out
}
