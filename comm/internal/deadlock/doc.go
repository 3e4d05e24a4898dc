// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package deadlock finds deadlocks of the ranks of a run, which are in one process or in several.
// Each process has a [Detector]:
//
//	active ──no activity for a period──→ quiet ──inspection: all wait──→ blocked
//	   ↑                                   │                                │
//	   └─────────────activity──────────────┴──────activity: retract─────────┘
//
// A blocked process reports that to the first process, with the numbers of frames that it has sent
// and taken. The first process gathers the reports:
//
//	gathering ──all blocked, as many sent as taken: query──→ asked ──all answer alike──→ deadlock
//	    ↑                                                      │
//	    └──────a process is active, or its numbers differ──────┘
//
// If all processes are blocked at one moment and no frame is under way, nothing will happen any
// more. The reports are made at different moments, so they do not prove that yet. An answer to the
// query is made after all reports. If its numbers are those of the process's report, the process
// had these numbers when the query was sent. If that is so for all processes, their numbers hold at
// one moment. As many frames were sent as taken, so none was under way at that moment.
//
// If goroutines of the program may still act, the result is a suspicion, which is only logged, and
// the run goes on. ../../README.md, "Deadlocks", has the bad schedule that each rule prevents.
package deadlock
