// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/event"
	"weft/internal/event/check"
	"weft/internal/event/replay"
	"weft/internal/event/timeline"
)

// newTrace returns the command for recorded traces.
func newTrace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Read, check and convert recorded traces",
		Long: `trace reads what programs record of themselves: started with WEFT_TRACE=FILE, a weft program writes its events to FILE.
The files of the processes of one run are given together.`,
		Args: legalCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	files := arguments(cobra.MinimumNArgs(1), "the traces of one run, one or more files")
	file := ""
	view := &cobra.Command{
		Use:   "timeline FILE...",
		Short: "Make a timeline of traces, for ui.perfetto.dev or chrome://tracing",
		Long: `timeline makes one timeline of the traces of one run, a file for each process. Times of processes on one machine are
compared by its clock.`,
		Example: "  weft trace timeline -o run.json run.rank*.weft",
		Args:    files,
		RunE:    func(cmd *cobra.Command, args []string) error { return writeTimeline(cmd.OutOrStdout(), file, args) },
	}
	view.Flags().StringVarP(&file, "output", "o", "", "the file to be written; standard output if not given")
	c.AddCommand(view, &cobra.Command{
		Use:     "check FILE...",
		Short:   "Replay traces through the legal states of tasks, slots and requests",
		Example: "  WEFT_TRACE=run.weft ./prog && weft trace check run.weft",
		Args:    files,
		RunE:    func(cmd *cobra.Command, args []string) error { return checkTrace(cmd.OutOrStdout(), args) },
	}, &cobra.Command{
		Use:   "print FILE...",
		Short: "Print the events of traces, a line each, in the order of their times",
		Args:  files,
		RunE:  func(cmd *cobra.Command, args []string) error { return printTrace(cmd.OutOrStdout(), args) },
	}, &cobra.Command{
		Use:   "events",
		Short: "Print the page of the documentation that lists the events",
		Args:  arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), event.Markdown())
			return err
		},
	})
	return c
}

func checkTrace(out io.Writer, names []string) error {
	seen, partial, err := check.Files(check.Options{}, names...)
	if err != nil {
		return err
	}
	note := ""
	if partial {
		note = "; events are missing, so only part of the rules could be checked"
	}
	_, err = fmt.Fprintf(out, "%d events, all legal%s\n", seen, note)
	return err
}

func printTrace(out io.Writer, names []string) error {
	set, err := replay.Open(names...)
	if err != nil {
		return err
	}
	defer set.Close()
	start := int64(0)
	for e, err := range set.Events() {
		if err != nil {
			return err
		}
		if start == 0 {
			start = e.Time
		}
		process := ""
		if set.Processes() > 1 {
			process = fmt.Sprintf("process %d ", set.Head(e.Process).Rank)
		}
		p := e.Source.Place
		if _, err := fmt.Fprintf(out, "%14.6f ms  %s%s %d.%d  %-12s %s\n", float64(e.Time-start)/float64(time.Millisecond), process, p.Kind, p.Group, p.Index,
			e.Kind(), set.Describe(e)); err != nil {
			return err
		}
	}
	return nil
}

// writeTimeline makes a timeline in a file, or on standard output.
func writeTimeline(out io.Writer, file string, names []string) error {
	if file == "" || file == "-" {
		return timeline.Write(out, names...)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = timeline.Write(f, names...)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
