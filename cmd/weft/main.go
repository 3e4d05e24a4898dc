// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Command weft runs programs as several processes, checks them, reads their recordings, manages
// windows of network-attached memory, and shows the environment of weft programs. "weft -h" lists
// the commands.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/tools/go/analysis/unitchecker"

	"weft/internal/launch/job"
	"weft/internal/vet"
)

func main() {
	if job.Janitor() {
		return
	}
	if calledByVet(os.Args[1:]) {
		// analyzes one package for the go command, and does not return
		unitchecker.Main(vet.Analyzers...)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main, with arguments and outputs as parameters, and returns the exit status.
func run(args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	if silent, ok := errors.AsType[exitStatus](err); ok {
		return int(silent)
	}
	fmt.Fprintf(errOut, "weft: %v\n", err)
	if errors.As(err, new(usageError)) {
		fmt.Fprintf(errOut, "Try '%s -h'.\n", cmd.CommandPath())
		return exitUsage
	}
	if failed, ok := errors.AsType[*job.Error](err); ok {
		return failed.Status
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Run and check weft programs, and manage their network-attached memory",
		Long: `weft runs programs as several processes, checks weft programs, and manages their network-attached memory.

A weft program does not need this command: started like any other program, it has all its ranks in one process.`,
		Example: `  weft run -n 4 ./prog
  weft nam ls
  weft nam stat heat
  weft info`,
		Args:          legalCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(), newNam(), newTrace(), newLint(), newVet(), newLintCompile(), newInfo())
	return root
}
