// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package journal writes recordings to files and reads them: the trace format, which docs/trace-format.md describes.
//
//	j, err := journal.Create("run.weft", journal.Head{Rank: 0, Ranks: 1})
//	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
//
// A file is a sequence of blocks, each with its length and a checksum. It is whole when its last block is an end mark: the
// writer puts one whenever nobody records, and at Close. A file without it is what a program left that was killed; all blocks
// before the place where it was cut can be read.
//
// A Writer is a sink: one call at a time. A Reader belongs to one goroutine. Both block in the file only.
package journal
