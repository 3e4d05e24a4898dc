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

import (
	"errors"
	"io"
	"os"

	"weft/internal/event/journal"
)

// Set is the files of one run.
type Set struct {
	traces   []*trace   // by rank
	machines []*machine // of several traces
}

// machine is processes with one clock.
type machine struct {
	host   string
	traces []*trace
	shift  int64 // to be added to its times
	doubt  int64 // how far shift may be off; -1: not known
	how    string
}

// trace is one file that is read.
type trace struct {
	*journal.Reader
	name  string
	file  *os.File
	order order
	ready []Event // the first of those that order has
	at    int
	err   error // io.EOF after a whole file
}

// fill reads on until there is an event, or an error.
func (t *trace) fill() {
	if t.at < len(t.ready) {
		return
	}
	t.order.drop(len(t.ready))
	t.ready, t.at = nil, 0
	for len(t.ready) == 0 && t.err == nil {
		b, err := t.Next()
		switch {
		case err != nil:
			t.err = err
			if errors.Is(err, io.EOF) || errors.Is(err, journal.ErrCut) {
				t.ready = t.order.due(1 << 62)
			}
		case b.Records != nil:
			t.order.add(b.Source, b.Records)
		default:
			t.ready = t.order.moment(b.Moment)
		}
	}
}
