// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package event records trace events. Its table (table.go) lists every kind of trace event. Its
// rings and its recorder collect the records and pass them to sinks. The timeline, the checker,
// statistics, profiles and docs/events.md are made from them.
//
//	rec, err := event.New(event.Options{Sinks: []event.Sink{mine}})
//	rt := task.New(task.Config{Trace: rec})
//	… rt.Run …
//	rt.Close()
//	err = rec.Close() // mine has received every record
//
// # Parts
//
//	Kind, Info, Field   the table of all kinds
//	Record              one trace event: 32 bytes
//	Ring, Shared        ring buffers: slots use Ring, ranks and other goroutines use Shared
//	Recorder            owns the rings, and the goroutine that empties them into sinks
//	Sink                consumes records
//	Names               the texts that numbers in records stand for
//	Clock, Ticks        time
//
// # States
//
//	ring       in use ── Retire ──> retired ── the reader finds it empty ──> dropped
//	recorder   recording ── Close ──> closed
//
// The writer fills a ring and the reader empties it. A full ring drops new records and counts them.
//
// # Concurrency
//
// Only a ring's writer may call Ring.Put; any goroutine may call Shared.Put. Neither call blocks,
// allocates or locks, except that a writer waits for room if Options.Patient or Eager says so. Any
// goroutine may call all other functions. Flush, Detach and Close wait for the sinks.
//
// # Lock order
//
//	Recorder.drain
//	  Recorder.mu
//	    Names.mu
//
// README.md has the protocol of the rings, and shows how to write a sink.
package event
