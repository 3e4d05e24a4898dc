// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package replay puts recorded events in the order of their times: those of one recording, from a file or as they come, and those
// of the files of several processes.
//
//	set, err := replay.Open("run.rank0.weft", "run.rank1.weft")
//	for e, err := range set.Events() { … }
//
// Memory is bounded: of each recording, what happened in the last Horizon before the place that is read is kept, to be
// sorted.
//
// Times of one machine are compared by its clock; those of several machines by the messages between them: README.md.
//
// All of it belongs to one goroutine.
package replay
