// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weft/internal/event/journal"
	"weft/internal/event/output"
	"weft/internal/event/replay"
	"weft/internal/launch/job"
	"weft/trace"
)

// timelineSuffix ends the names of timelines, as opposed to recordings.
const timelineSuffix = ".json"

// jobTrace is the outputs of "weft run -trace".
type jobTrace struct {
	timeline string   // absolute name; "": recordings only
	parts    []string // recordings of this launcher's ranks, by rank
}

// traceJob sets up all ranks of a job to record themselves. It removes files of an earlier job with
// the same names, which would be mistaken for files of this one.
func traceJob(spec *job.Spec, file string) (*jobTrace, error) {
	abs, err := filepath.Abs(file) // ranks may have other working directories
	if err != nil {
		return nil, usageError{fmt.Errorf("-trace %s: %w", file, err)}
	}
	if st, err := os.Stat(filepath.Dir(abs)); err != nil || !st.IsDir() {
		return nil, usageError{fmt.Errorf("-trace %s: there is no directory %s", file, filepath.Dir(abs))}
	}
	if st, err := os.Stat(abs); err == nil && st.IsDir() {
		return nil, usageError{fmt.Errorf("-trace %s: it is a directory; legal is the name of a file, such as %s", file, filepath.Join(file, "run.json"))}
	}
	j, recording := &jobTrace{}, abs
	if strings.HasSuffix(abs, timelineSuffix) {
		j.timeline = abs
		recording += ".weft"
	}
	n := 0
	for i := range spec.Parts {
		p := &spec.Parts[i]
		// a later value, which the user gives for a part, takes precedence
		p.Env = append([]string{trace.EnvFile + "=" + recording}, p.Env...)
		n += p.Ranks
	}
	if spec.Join != "" {
		// the launcher that listens numbers the ranks, so their files are not known here
		return &jobTrace{}, nil
	}
	for r := range n {
		j.parts = append(j.parts, output.Part(recording, r))
	}
	for _, name := range append(j.parts, j.timeline) {
		if name == "" {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, usageError{fmt.Errorf("-trace %s: %w", file, err)}
		}
	}
	return j, nil
}

// merge makes the timeline of the ranks' recordings, including those that are cut, and prints which
// ranks are missing and why.
func (j *jobTrace) merge(errOut io.Writer) error {
	if j.timeline == "" {
		return nil
	}
	var good []string
	for rank, name := range j.parts {
		set, err := replay.Open(name)
		if err == nil {
			set.Close()
			good = append(good, name)
			continue
		}
		why := err.Error()
		if st, statErr := os.Stat(name); errors.Is(statErr, os.ErrNotExist) {
			why = name + " does not exist: the program records nothing, or ended before it began to record"
		} else if statErr == nil && st.Size() == 0 {
			why = name + " is empty: the process ended before anything was written to it"
		}
		fmt.Fprintf(errOut, "weft run: rank %d is not in the timeline: %s\n", rank, why)
	}
	if len(good) == 0 {
		return fmt.Errorf("-trace: no rank has recorded anything, so there is no timeline %s", j.timeline)
	}
	err := writeTimeline(io.Discard, errOut, j.timeline, good)
	if errors.Is(err, journal.ErrCut) {
		fmt.Fprintf(errOut, "weft run: the timeline has only a part of %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		err = nil
	}
	return err
}
