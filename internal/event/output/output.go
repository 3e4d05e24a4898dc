// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package output opens the files of recordings: those that a program asks for, and the one that the
// environment names.
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

// Create returns a sink that writes a file: a timeline if its name ends in .json, with the
// recording itself beside it, under the same name with .weft; otherwise the recording. In a process
// that is one of several ranks, the name gets the rank.
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

// Open begins a recording to a file, as by Create. ring is as in event.Options.
func Open(file string, ring int) (*event.Recorder, error) {
	return open(file, ring, nil)
}

// open begins a recording. If nobody closes it, and nobody would see its errors, the first one is
// said on out, which is else nil. Options that are not legal leave a file as it was.
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
		s = &loud{Sink: s, file: file, out: out}
	}
	opt.Sinks = []event.Sink{s}
	rec, err := event.New(opt)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return rec, nil
}

// Part returns the name of one process's file: run.rank3.weft for run.weft; the name itself if the
// process is on its own, with rank -1.
func Part(file string, rank int) string {
	if rank < 0 {
		return file
	}
	dir, base := filepath.Split(file)
	stem, _, _ := strings.Cut(base, ".")
	return fmt.Sprintf("%s%s.rank%d%s", dir, stem, rank, base[len(stem):])
}

// job returns what the launcher of this process calls its job; empty if that is not known, or there
// is none.
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

// sink is a journal, of which a timeline is made when it is whole.
type sink struct {
	*journal.Writer
	json string // empty for none
}

// Idle makes the files whole.
func (s *sink) Idle() error { return s.write(s.Writer.Idle()) }

// Close makes the files whole.
func (s *sink) Close() error { return s.write(s.Writer.Close()) }

// write makes the timeline, after what went wrong with the journal. Who looks at the file while
// that lasts sees the one before.
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

// loud is a sink that says its first error.
type loud struct {
	event.Sink
	file string
	out  io.Writer
	said bool
}

func (l *loud) say(err error) error {
	if err != nil && !l.said {
		l.said = true
		// there is nowhere else to say it
		_, _ = fmt.Fprintf(l.out, "weft: %s=%s: the recording is not whole: %v\n", env.Trace.Name, l.file, err)
	}
	return err
}

// Flush is a sink's.
func (l *loud) Flush(m event.Moment) error { return l.say(l.Sink.Flush(m)) }

// Idle is a sink's.
func (l *loud) Idle() error { return l.say(l.Sink.Idle()) }

// Close is a sink's.
func (l *loud) Close() error { return l.say(l.Sink.Close()) }

// environment is the recording that the environment asks for: one for the process.
var environment struct {
	mu    sync.Mutex
	taken bool            // the file is open, or cannot be. +checklocks:mu
	rec   *event.Recorder // +checklocks:mu
	err   error           // +checklocks:mu
}

// FromEnvironment returns the recording that the environment asks for, one for the process; nil if
// it does not.
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

// EnvironmentSink is for who makes a recording with sinks of its own: it returns that of the file
// which the environment names, and what is to be called with the recording, which is then
// FromEnvironment's as well. The sink is nil if the environment names no file, or something records
// to it already.
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
	return &loud{Sink: s, file: file, out: os.Stderr}, func(rec *event.Recorder) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rec = rec
	}, nil
}

// named says which variable an error is due to.
func named(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("environment variable %s is %q: %w; legal are names of files that can be written", env.Trace.Name, file, err)
}
