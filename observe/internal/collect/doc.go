// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package collect reconstructs tasks from trace events. It is a sink of a recording. It keeps the
// state of each task that is not over, statistics of the others by kind of task, and, for the
// graph, the first tasks that were over.
//
//	                    its first event                       all its events have arrived
//	(unknown task) ────────────────────▶ live: a partial sum ────────────────────────────▶ counted
//	                                            │             settle, or the second Flush
//	                                            │             after its end
//	                                            │ an event is missing for lateLimit
//	                                            ▼
//	                                     incomplete: in the notes
//
// # Order
//
// Events of one source arrive in order, events of different sources do not. A task's events may
// have several sources, so the collector adds them up in any order: see live. For the collector, a
// task is over when all its events have arrived, not when the last event of its life has. All have
// arrived, at the latest, with the second Flush after the last event of its life, because a Flush
// reads all sources. Sorting the events would work too, but costs more than everything else.
//
// # Memory
//
// Memory is bounded: the tasks for the graph, whose number New takes, and maxLive tasks that are
// not over. Further tasks are left out, and Notes say so. A kind of task (label and position) takes
// some KiB.
//
// # Locks
//
// Collector.mu guards everything. The reader of the recording holds it while it passes events, and
// the caller of a query while it copies. Tasks never wait for it.
package collect
