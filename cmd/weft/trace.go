// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/event"
)

// newTrace returns the command for recorded traces.
func newTrace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Read and check recorded traces",
		Args:  legalCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "events",
		Short: "Print the page of the documentation that lists the events",
		Args:  arguments(cobra.NoArgs, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), event.Markdown())
			return err
		},
	})
	return c
}
