// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package event is the one source of events: a table of what can happen in a program (table.go),
// and the recording of it. The timeline, the checker, statistics, profiles and docs/events.md are
// made from it.
//
//	rec, err := event.New(event.Options{Sinks: []event.Sink{mine}})
//	rt := task.New(task.Config{Trace: rec})
//	… rt.Run …
//	rt.Close()
//	err = rec.Close() // mine has had everything
//
// # Parts
//
//	Kind, Info, Field   what there is: the table
//	Record              an event: 32 bytes
//	Ring, Shared        where a slot, a rank, others put their records
//	Recorder            the rings, and the goroutine that empties them into sinks
//	Sink                who consumes
//	Names               the texts behind the numbers in records
//	Clock, Ticks        time
//
// # States
//
// A ring is filled by its writer and emptied by the reader; when it is full, what comes is counted
// and not kept. It is retired by its owner, and forgotten when the reader has found it so and
// empty. A recorder records until Close.
//
// # Who may call what, and what blocks
//
// Ring.Put belongs to the writer; Shared.Put to anybody. None of them blocks, allocates or takes a
// lock. All else may be called by anybody. Flush, Detach and Close wait for the sinks.
//
// # Lock order
//
//	Recorder.drain
//	  Recorder.mu
//	    Names.mu
//
// README.md has the protocol of the rings, and how to write a sink.
package event
