// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"weft/task"
)

func newLint() *cobra.Command {
	var self bool
	cmd := &cobra.Command{
		Use:   "lint COMMAND [ARGUMENTS]",
		Short: "Run a go command whose programs show the race detector what their tasks declare",
		Long: `lint runs a command, go run or go test, with the race detector and task's lint mode: tasks are ordered for the race detector
by their declared accesses, spawns and waits, and by nothing that merely happened. So an access that is missing is reported as a
race, at the two lines, whatever the schedule was. Debug mode is on as well.

It sets GOFLAGS, so that the race detector sees all but weft's own runtime, and ` + task.EnvLint + ` and ` + task.EnvDebug + `. The race detector needs a C
compiler. The exit status is that of the command: go test fails, and a program ends with 66, if there was a race.`,
		Example: `  weft lint go test ./...
  weft lint go run ./examples/heat -timesteps 20 -size 128 -bs 32`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no command; give one, such as go test ./... in the module")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := exec.CommandContext(cmd.Context(), args[0], args[1:]...)
			var err error
			if c.Env, err = lintEnviron(os.Environ(), self); err != nil {
				return fmt.Errorf("lint: %w", err)
			}
			c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			var exit *exec.ExitError
			switch err = c.Run(); {
			case errors.As(err, &exit) && exit.ExitCode() > 0:
				return exitStatus(exit.ExitCode())
			case err != nil:
				return fmt.Errorf("lint: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&self, "self", false, "the race detector sees the tests of weft's own runtime as well, which go test compiles as it does the runtime")
	cmd.Flags().SetInterspersed(false) // what follows the command is its own
	return cmd
}

// lintEnviron returns the environment of a command that builds and runs programs in lint mode.
func lintEnviron(env []string, self bool) ([]string, error) {
	flags := ""
	for _, v := range env {
		if old, ok := strings.CutPrefix(v, "GOFLAGS="); ok {
			flags = old + " "
		}
	}
	flags += "-race -tags=" + task.LintTag
	without := "-race=false"
	if self {
		without = compileMark
		path, err := os.Executable()
		if err != nil {
			return nil, err
		}
		flags += fmt.Sprintf(` "-toolexec='%s' %s"`, path, compileCommand)
	}
	for _, p := range task.LintPackages {
		flags += " -gcflags=" + p + "=" + without
	}
	return append(env, "GOFLAGS="+flags, "CGO_ENABLED=1", task.EnvLint+"=1", task.EnvDebug+"=1"), nil
}
