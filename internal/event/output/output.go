// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package output opens files for recordings: those that a program names, and the one that
// WEFT_TRACE names.
package output

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"weft/internal/env"
	"weft/internal/event"
	"weft/internal/event/journal"
	"weft/internal/event/timeline"
)

// Create returns a sink that writes a file. If the file name ends in .json, it writes a timeline
// under that name, and the recording next to it with the suffix .weft. Otherwise it writes the
// recording only. In a process that is one of several ranks, the names contain the rank.
func Create(file string) (event.Sink, error) {
	rank, ranks := env.RankAndSize()
	json := ""
	if strings.HasSuffix(file, ".json") {
		json = Part(file, rank)
		file += ".weft"
	}
	j, err := journal.Create(Part(file, rank), journal.Head{Rank: rank, Ranks: ranks, Job: job(rank)})
	if err != nil {
		return nil, err
	}
	return &sink{j, json}, nil
}

// Open begins a recording to a file; the name is as in Create, and ring is as in event.Options.
func Open(file string, ring int) (*event.Recorder, error) {
	return open(file, ring, nil)
}

// open begins a recording. The first error of the sink is printed to out, unless out is nil: a
// caller that never closes the recording would not see it. Illegal options leave an existing file
// unchanged.
func open(file string, ring int, out io.Writer) (*event.Recorder, error) {
	opt := event.Options{Ring: ring}
	if err := opt.Check(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	s, err := Create(file)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if out != nil {
		s = &errorReporter{Sink: s, file: file, out: out}
	}
	opt.Sinks = []event.Sink{s}
	rec, err := event.New(opt)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return rec, nil
}

// Part returns the name of a rank's file: run.rank3.weft for run.weft. It returns file itself if
// rank is -1, as for a process that is not one of several.
func Part(file string, rank int) string {
	if rank < 0 {
		return file
	}
	dir, base := filepath.Split(file)
	stem, _, _ := strings.Cut(base, ".")
	return fmt.Sprintf("%s%s.rank%d%s", dir, stem, rank, base[len(stem):])
}

// job returns the launcher's name for this process's job; empty if it is not known or there is no
// launcher.
func job(rank int) string {
	if rank < 0 {
		return ""
	}
	if dir := env.Job.Text(); dir != "" {
		return filepath.Base(dir)
	}
	if name := env.Get("PMIX_NAMESPACE"); name != "" {
		return name
	}
	if id := env.Get("SLURM_JOB_ID"); id != "" {
		return id + "." + env.Get("SLURM_STEP_ID")
	}
	return ""
}

// sink is a journal that makes a timeline whenever its file is whole.
type sink struct {
	*journal.Writer
	json string // empty for none
}

// Idle completes the journal and writes the timeline.
func (s *sink) Idle() error { return s.write(s.Writer.Idle()) }

// Close completes the journal and writes the timeline.
func (s *sink) Close() error { return s.write(s.Writer.Close()) }

// write writes the timeline, unless the journal failed with err. Until the timeline is complete,
// its file has the previous one.
func (s *sink) write(err error) error {
	if err != nil || s.json == "" {
		return err
	}
	f, err := os.Create(s.json + ".part")
	if err != nil {
		return err
	}
	if err := cmp.Or(timeline.Write(f, s.Name()), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.json)
}

// errorReporter is a sink that prints its first error.
type errorReporter struct {
	event.Sink
	file     string
	out      io.Writer
	reported bool
}

func (l *errorReporter) report(err error) error {
	if err != nil && !l.reported {
		l.reported = true
		// an error of this print has no other place to go
		_, _ = fmt.Fprintf(l.out, "weft: %s=%s: the recording is incomplete: %v\n", env.Trace.Name, l.file, err)
	}
	return err
}

// Flush is a sink's.
func (l *errorReporter) Flush(m event.Moment) error { return l.report(l.Sink.Flush(m)) }

// Idle is a sink's.
func (l *errorReporter) Idle() error { return l.report(l.Sink.Idle()) }

// Close is a sink's.
func (l *errorReporter) Close() error { return l.report(l.Sink.Close()) }

// environment is the recording that WEFT_TRACE requests: one for the process.
var environment struct {
	mu    sync.Mutex
	taken bool            // the file is open, or opening it has failed. +checklocks:mu
	rec   *event.Recorder // +checklocks:mu
	err   error           // +checklocks:mu
}

// FromEnvironment returns the recording that WEFT_TRACE requests, the same one for the whole
// process; nil if the variable is not set.
func FromEnvironment() (*event.Recorder, error) {
	e := &environment
	e.mu.Lock()
	defer e.mu.Unlock()
	if file := env.Trace.Text(); !e.taken && file != "" {
		e.rec, e.err = open(file, 0, os.Stderr)
		e.err = named(file, e.err)
	}
	e.taken = true
	return e.rec, e.err
}

// EnvironmentSink is for a caller that makes a recording with sinks of its own. It returns a sink
// for the file that WEFT_TRACE names, and a function that the caller must call with the new
// recording: FromEnvironment then returns that recording. The sink is nil if the variable is not
// set, or if a recording to its file exists already.
func EnvironmentSink() (event.Sink, func(*event.Recorder), error) {
	e := &environment
	e.mu.Lock()
	defer e.mu.Unlock()
	file := env.Trace.Text()
	if e.taken || file == "" {
		return nil, nil, nil
	}
	s, err := Create(file)
	if err != nil {
		return nil, nil, named(file, err)
	}
	e.taken = true
	return &errorReporter{Sink: s, file: file, out: os.Stderr}, func(rec *event.Recorder) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rec = rec
	}, nil
}

// named adds the name of the variable to an error.
func named(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("environment variable %s is %q: %w; legal are names of files that can be written", env.Trace.Name, file, err)
}
