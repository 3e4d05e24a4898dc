// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func newVet() *cobra.Command {
	return &cobra.Command{
		Use:   "vet [PACKAGES]",
		Short: "Find accesses that name the wrong object, without running the program",
		Long: `vet reads the source of packages and reports accesses that name the wrong object:

  loopvar     a variable of which each iteration of a loop has its own: for _, b := range blocks { … deps.InOut(&b) }
  header      a slice or pointer, while another access names what it refers to: deps.Out(&row) and deps.In(&row[0])
  copied      a copy that only one task can name
  undeclared  an object that a body uses, and that another task declares but its own task does not

It reports no program that may be correct. Without PACKAGES it checks the package in the current directory.
Flags are those of go vet, such as -json, -tags or -loopvar=false. The exit status is that of go vet: 0 if
there are no findings.

The program is also a tool of go vet: go vet -vettool=$(which weft) ./...`,
		Example:            "  weft vet ./...",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, a := range args {
				if a == "-h" || a == "-help" || a == "--help" {
					return cmd.Help()
				}
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("vet: %w", err)
			}
			return runTool(cmd, exec.CommandContext(cmd.Context(), "go", append([]string{"vet", "-vettool=" + self}, args...)...))
		},
	}
}

// calledByVet reports whether the go command has started this program as a tool of go vet.
func calledByVet(args []string) bool {
	if len(args) == 1 && (args[0] == "-V=full" || args[0] == "-flags") {
		return true
	}
	unit := len(args) > 0 && filepath.Base(args[len(args)-1]) == "vet.cfg"
	return unit && (len(args) == 1 || strings.HasPrefix(args[0], "-"))
}
