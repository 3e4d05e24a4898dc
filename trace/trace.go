// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package trace records what a program does: its tasks, slots, messages and windows, as trace
// events of one table.
//
//	rec, err := trace.New(trace.Options{File: "run.json"})
//	rt := task.New(task.Config{Trace: rec})
//	… rt.Run(…) …
//	rt.Close()
//	err = rec.Close()
//
// If the name of the file ends in .json, the file is a timeline for https://ui.perfetto.dev or
// chrome://tracing. Otherwise it is the recording itself, for "weft trace check", "weft trace
// print" and "weft trace timeline". The last makes a timeline of the recording later, also of the
// files of several processes together.
//
// A program needs no change to be recorded: started with the environment variable WEFT_TRACE=FILE,
// it records there all runtimes and runs that it opens without a Trace. The file is complete when
// the last runtime is closed and the last run of ranks has ended.
//
// Trace events are kept in rings of a fixed size until they are written. If a program makes them
// faster than they are written, events that find their ring full are lost and counted; the trace
// says where.
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

// Close ends the recording, and returns the error of its file. All runtimes and runs that use the
// recording must have ended. Later calls return the same error.
func (r *Recorder) Close() error { return (*event.Recorder)(r).Close() }

// Lost returns the number of trace events that were lost so far because their rings were full.
func (r *Recorder) Lost() uint64 { return (*event.Recorder)(r).Lost() }

// EnvFile is the environment variable that names the file to which an unchanged program is
// recorded.
const EnvFile = "WEFT_TRACE"

// Options configure a recording.
type Options struct {
	// File is created or overwritten. It must be given.
	File string
	// Ring is the number of trace events of each slot and each rank that are kept until they are
	// written: a power of two. 0 means 65536. A trace event takes 32 bytes.
	Ring int
}

// New begins a recording. The error names the illegal option, or is that of the file.
func New(o Options) (*Recorder, error) {
	if o.File == "" {
		return nil, errors.New("trace: Options.File is empty; it names the file to be written")
	}
	r, err := output.Open(o.File, o.Ring)
	return (*Recorder)(r), err
}
