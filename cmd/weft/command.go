// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"
)

// runTool runs c for cmd, and returns c's exit status as an error.
func runTool(cmd *cobra.Command, c *exec.Cmd) error {
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exitStatus(exit.ExitCode())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return nil
}

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake in the command line. It is distinguished from a command that failed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// legalCommand returns an error for an unknown sub-command, with the names of the known ones.
func legalCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	legal := ""
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			legal += ", " + c.Name()
		}
	}
	return usageError{fmt.Errorf("unknown command %q for %q; legal are %s", args[0], cmd.CommandPath(), legal[len(", "):])}
}

// arguments turns the error of a check of arguments into a usage error; what describes the legal
// arguments.
func arguments(check cobra.PositionalArgs, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return usageError{fmt.Errorf("%q takes %s, not %d arguments", cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}

// exitStatus is an exit status without an error message.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
