// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package trace records what a program does: its tasks and slots, messages, windows, from one table of events.
//
//	rec, err := trace.New(trace.Options{File: "run.json"})
//	rt := task.New(task.Config{Trace: rec})
//	… rt.Run(…) …
//	rt.Close()
//	err = rec.Close()
//
// A file whose name ends in .json gets a timeline, for https://ui.perfetto.dev or chrome://tracing. Any other gets the
// recording itself, for "weft trace check", "weft trace print" and "weft trace timeline", which makes a timeline of it
// later, also of the files of several processes together.
//
// A program that is not changed records itself when it is started with the environment variable WEFT_TRACE=FILE: what it opens
// without a Trace of its own is recorded there. The file is whole when the last runtime is closed and the last run of
// ranks has ended.
//
// Events are kept in rings of a fixed size until they are written. Where a program makes them faster than that, what finds
// its ring full is lost, and counted; the trace says where.
//
// A [Recorder] may be used by any number of runtimes and runs at once. Close waits for the file.
package trace
