// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package journal writes recordings to files and reads them: the trace format, which
// docs/trace-format.md describes.
//
//	j, err := journal.Create("run.weft", journal.Head{Rank: 0, Ranks: 1})
//	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
//
// A file is a sequence of blocks, each with its length and a checksum. A file is whole if its last
// block is an end mark. The writer puts an end mark whenever no part of the program records any
// more (Idle), and at Close. A killed program leaves a file without an end mark; all blocks before
// the cut can be read.
//
// A Writer is a sink: one call at a time. A Reader belongs to one goroutine. Both block only in
// file operations.
package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"weft/internal/event"
)

// Version is the version of the trace format. A reader reads no other version.
const Version = 1

// magic begins a file. The version follows, in four bytes.
const magic = "wefttrace\r\n\x00"

const (
	preface = len(magic) + 4
	// kind, length of the payload, checksum of both and of the payload: four bytes each,
	// little-endian
	blockHead  = 12
	recordSize = 32
	maxBlock   = 1 << 24 // longest payload in bytes
)

// Kinds of blocks.
const (
	headBlock    = 1 // JSON: Head
	sourceBlock  = 2 // JSON: a source, before its first records
	specBlock    = 3 // JSON: a Spec, before the first record with its number
	momentBlock  = 4 // ticks and wall clock: eight bytes each
	recordsBlock = 5 // number of the source in eight bytes, then records
	endBlock     = 6 // trace events lost so far, in eight bytes
)

// Head describes the recorded process. It is the first block of a file.
type Head struct {
	Program string // the program's name, as it was started
	Process int    // its process number at the operating system
	Host    string
	Boot    string // identifies the machine from its start to its end; empty if not known
	Clock   string // the clock that Ticks reads
	Rank    int    // of the process in its job; -1 if it is not one of several
	Ranks   int    // processes of the job
	// the launcher's name for the job; empty if it is not known. The launchers of one job have
	// different names for it
	Job   string `json:",omitempty"`
	Start event.Moment
}

// Spec is an origin of tasks, with its number.
type Spec struct {
	ID    uint32
	Label string
	Where string // file:line (function)
}

// Errors of readers. They are wrapped with the byte offset in the file.
var (
	ErrFormat  = errors.New("not a weft trace")
	ErrVersion = errors.New("a trace format of another version")
	ErrDamaged = errors.New("damaged")
	ErrCut     = errors.New("cut short: there is no end mark, so the program did not end normally, or part of the file is missing")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var le = binary.LittleEndian

// appendRecord appends the file format of a record.
func appendRecord(b []byte, r *event.Record) []byte {
	b = le.AppendUint64(b, uint64(r.Ticks())<<8|uint64(r.Kind()))
	b = le.AppendUint64(b, r.A)
	b = le.AppendUint64(b, r.B)
	return le.AppendUint64(b, r.C)
}

// record decodes a record.
func record(b []byte) event.Record {
	when := le.Uint64(b)
	return event.Make(int64(when>>8), event.Kind(when), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]))
}
