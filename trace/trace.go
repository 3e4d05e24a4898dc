// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package trace records what a program does: its tasks and slots, messages, windows, from one table
// of events.
//
//	rec, err := trace.New(trace.Options{File: "run.json"})
//	rt := task.New(task.Config{Trace: rec})
//	… rt.Run(…) …
//	rt.Close()
//	err = rec.Close()
//
// A file whose name ends in .json gets a timeline, for https://ui.perfetto.dev or chrome://tracing.
// Any other gets the recording itself, for "weft trace check", "weft trace print" and "weft trace
// timeline", which makes a timeline of it later, also of the files of several processes together.
//
// A program that is not changed records itself when it is started with the environment variable
// WEFT_TRACE=FILE: what it opens without a Trace of its own is recorded there. The file is whole
// when the last runtime is closed and the last run of ranks has ended.
//
// Events are kept in rings of a fixed size until they are written. Where a program makes them
// faster than that, what finds its ring full is lost, and counted; the trace says where.
//
// A [Recorder] may be used by any number of runtimes and runs at once. Close waits for the file.
package trace

import (
	"errors"

	"weft/internal/event"
	"weft/internal/event/output"
)

// Recorder is a recording: the value of task.Config.Trace and comm.Config.Trace. Any number of
// runtimes and runs may use it at once.
type Recorder event.Recorder

// Close ends the recording, when what uses it has ended, and returns what went wrong. Later calls
// return the same.
func (r *Recorder) Close() error { return (*event.Recorder)(r).Close() }

// Lost returns how many events had no room so far.
func (r *Recorder) Lost() uint64 { return (*event.Recorder)(r).Lost() }

// EnvFile is the environment variable that names the file of an unchanged program's recording.
const EnvFile = "WEFT_TRACE"

// Options set a recording up.
type Options struct {
	// File is written anew. It must be given.
	File string
	// Ring is how many events of each slot and each rank are kept until they are written: a power
	// of two. 0 means 65536; each takes 32 bytes.
	Ring int
}

// New begins a recording. The error says what is not legal in the options, or with the file.
func New(o Options) (*Recorder, error) {
	if o.File == "" {
		return nil, errors.New("trace: Options.File is empty; it names the file to be written")
	}
	r, err := output.Open(o.File, o.Ring)
	return (*Recorder)(r), err
}
