// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/event"
	"weft/internal/event/check"
	"weft/internal/event/journal"
	"weft/internal/event/replay"
	"weft/internal/event/timeline"
)

// newTrace returns the command for recordings.
func newTrace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Read, check and convert recordings",
		Long: `trace reads recordings. A weft program that is started with WEFT_TRACE=FILE writes its trace events to FILE.
Give the files of all processes of a run together: by name, as a pattern, or as their directory.`,
		Args: legalCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	files := arguments(cobra.MinimumNArgs(1), "the recordings of one run, one or more files or directories")
	file, drawn := "", ""
	view := &cobra.Command{
		Use:   "timeline FILE...",
		Short: "Make a timeline of recordings, for ui.perfetto.dev or chrome://tracing",
		Long: `timeline makes one timeline of the recordings of one run, with one file for each process. Processes on one machine share
a clock. The clocks of several machines are compared by the messages between them: no message arrives before it is sent.
The differences between the clocks, and their uncertainties, are printed to standard error and written to the timeline.`,
		Example: `  weft trace timeline -o run.json run.rank*.weft
  weft trace timeline -o run.json traces`,
		Args: files,
		RunE: ofRecordings(func(cmd *cobra.Command, names []string) error {
			return writeTimeline(cmd.OutOrStdout(), cmd.ErrOrStderr(), file, names)
		}),
	}
	view.Flags().StringVarP(&file, "output", "o", "", "output file; standard output if not given")
	var shown timeline.View
	picture := &cobra.Command{
		Use:   "picture FILE...",
		Short: "Draw a part of the timeline of recordings, as SVG",
		Long: `picture draws the tasks on the slots of all ranks in a part of the run, with steals, and with arrows for dependences
and messages. Choose a few milliseconds; use a timeline to search through more.`,
		Example: "  weft trace picture --from 10ms --to 12ms -o run.svg run.weft",
		Args:    files,
		RunE: ofRecordings(func(cmd *cobra.Command, names []string) error {
			return drawTimeline(cmd.OutOrStdout(), drawn, names, shown)
		}),
	}
	picture.Flags().StringVarP(&drawn, "output", "o", "", "output file; standard output if not given")
	picture.Flags().DurationVar(&shown.From, "from", 0, "time at the left edge: since the beginning or, if negative, before the end")
	picture.Flags().DurationVar(&shown.To, "to", 0, "time at the right edge, likewise; 0: the end")
	picture.Flags().IntVar(&shown.Width, "width", 1200, "width in pixels")
	c.AddCommand(view, picture, &cobra.Command{
		Use:     "check FILE...",
		Short:   "Replay recordings through the legal states of tasks, slots, requests and windows",
		Example: "  WEFT_TRACE=run.weft ./prog && weft trace check run.weft",
		Args:    files,
		RunE: ofRecordings(func(cmd *cobra.Command, names []string) error {
			return checkTrace(cmd.OutOrStdout(), cmd.ErrOrStderr(), names)
		}),
	}, &cobra.Command{
		Use:   "print FILE...",
		Short: "Print the trace events of recordings, one line each, in the order of their times",
		Args:  files,
		RunE: ofRecordings(func(cmd *cobra.Command, names []string) error {
			return printTrace(cmd.OutOrStdout(), names)
		}),
	}, &cobra.Command{
		Use:   "events",
		Short: "Print the page of the documentation that lists the trace events",
		Args:  arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), event.Markdown())
			return err
		},
	})
	return c
}

// ofRecordings makes a command that calls do with the recordings that its arguments name.
func ofRecordings(do func(cmd *cobra.Command, names []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		names, err := recordings(args)
		if err != nil {
			return err
		}
		return do(cmd, names)
	}
}

func checkTrace(out, errOut io.Writer, names []string) error {
	if err := printNotes(errOut, names); err != nil {
		return err
	}
	seen, partial, err := check.Files(check.Options{}, names...)
	if err != nil {
		return err
	}
	note := ""
	if partial {
		note = "; some trace events were lost, so only part of the rules could be checked"
	}
	_, err = fmt.Fprintf(out, "%d trace events, all legal%s\n", seen, note)
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
		p := e.Source.Location
		if _, err := fmt.Fprintf(out, "%14.6f ms  %s%s %d.%d  %-12s %s\n", float64(e.Time-start)/float64(time.Millisecond), process, p.Kind, p.Group, p.Index,
			e.Kind(), set.Describe(e)); err != nil {
			return err
		}
	}
	return nil
}

// writeTimeline writes a timeline, and prints notes about its recordings.
func writeTimeline(out, errOut io.Writer, file string, names []string) error {
	if err := printNotes(errOut, names); err != nil {
		return err
	}
	return writeOutput(out, file, names, func(w io.Writer) error { return timeline.Write(w, names...) })
}

// drawTimeline draws a part of the timeline.
func drawTimeline(out io.Writer, file string, names []string, v timeline.View) error {
	var svg bytes.Buffer
	cut := timeline.Picture(&svg, v, names...)
	if cut != nil && !errors.Is(cut, journal.ErrCut) {
		return cut
	}
	return writeOutput(out, file, names, func(w io.Writer) error {
		if _, err := svg.WriteTo(w); err != nil {
			return err
		}
		return cut
	})
}

// printNotes prints notes about recordings: the differences between the clocks of machines, files
// that may be of another run, and ranks without a recording.
func printNotes(errOut io.Writer, names []string) error {
	set, err := replay.Open(names...)
	if err != nil {
		return err
	}
	defer set.Close()
	notes := append(set.Clocks(), set.Launchers()...)
	if missing := set.Missing(); len(missing) > 0 {
		notes = append(notes, fmt.Sprintf("there is no recording of rank %s of %d", strings.Trim(strings.ReplaceAll(fmt.Sprint(missing), " ", ", "), "[]"), set.Head(0).Ranks))
	}
	for _, n := range notes {
		fmt.Fprintf(errOut, "weft trace: %s\n", n)
	}
	return nil
}

// recordings returns the files that arguments name: files, directories with all their recordings,
// and patterns that no shell has expanded.
func recordings(args []string) (names []string, err error) {
	for _, arg := range args {
		pattern, none := arg, fmt.Errorf("%s: no file matches", arg)
		st, err := os.Stat(arg)
		switch {
		case err == nil && st.IsDir():
			pattern = filepath.Join(escapePattern(arg), "*"+recordingSuffix)
			none = fmt.Errorf("directory %s has no recordings (files *%s)", arg, recordingSuffix)
		case err == nil || !strings.ContainsAny(arg, "*?["):
			names = append(names, arg) // opening the file reports what is wrong with it
			continue
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arg, err)
		}
		if len(found) == 0 {
			return nil, none
		}
		names = append(names, found...)
	}
	return names, nil
}

// recordingSuffix ends the names of recordings in a directory.
const recordingSuffix = ".weft"

// escapePattern returns a pattern that matches name only.
func escapePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// writeOutput calls write for a file, or for standard output if the name is "" or "-". A regular
// file is replaced as a whole once it is complete, and not changed by an error. journal.ErrCut is
// no such error: the output then has all records of the cut file. Files that are not regular, such
// as /dev/null, are written directly. The output must not be one of its own inputs.
func writeOutput(out io.Writer, file string, from []string, write func(io.Writer) error) error {
	if file == "" || file == "-" {
		return write(out)
	}
	before, err := os.Stat(file)
	if err == nil {
		for _, name := range from {
			if st, err := os.Stat(name); err == nil && os.SameFile(before, st) {
				return usageError{fmt.Errorf("the output %s is one of the recordings; use another name", file)}
			}
		}
	}
	if err == nil && !before.Mode().IsRegular() {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return writeAndClose(f, write)
	}
	f, err := os.Create(file + ".part")
	if err != nil {
		return err
	}
	err = writeAndClose(f, write)
	if err == nil || errors.Is(err, journal.ErrCut) {
		return errors.Join(err, os.Rename(f.Name(), file))
	}
	_ = os.Remove(f.Name()) // err says why there is no output
	return err
}

func writeAndClose(f *os.File, write func(io.Writer) error) error {
	b := bufio.NewWriter(f)
	err := write(b)
	for _, finish := range []func() error{b.Flush, f.Close} {
		if e := finish(); e != nil && (err == nil || errors.Is(err, journal.ErrCut)) {
			err = e
		}
	}
	return err
}
