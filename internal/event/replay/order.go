// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package replay sorts trace records by time: those of a recording that is being made (Sink), and
// those in the files of several processes (Set).
//
//	set, err := replay.Open("run.rank0.weft", "run.rank1.weft")
//	for e, err := range set.Events() { … }
//
// Memory is bounded: of each recording, only the records of the last Horizon are held, to be
// sorted.
//
// Times of one machine are compared by its clock, and times of several machines by the messages
// between them. README.md has the argument.
//
// All values of this package belong to one goroutine.
package replay

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"weft/internal/event"
	"weft/internal/event/journal"
)

// Horizon bounds how long before a moment a record may have happened that follows the moment in a
// recording. Its writer was preempted between reading the clock and storing the record, for as long
// as the operating system gave the processor to others.
const Horizon = 200 * time.Millisecond

// Event is a trace record with its source, process and time.
type Event struct {
	event.Record
	Source  event.Source
	Process int   // number of the recording, in the order of Open
	Time    int64 // nanoseconds since 1970, by the clock of the first recording
}

// order sorts the records of one recording.
type order struct {
	start   event.Moment
	rate    float64 // nanoseconds per tick
	fixed   bool    // start and rate are final
	held    []Event
	process int
	latest  map[int]int64 // by source: the latest tick of its records so far
	shift   int64         // added to times
	last    int64         // time of the last record that due has returned
	// ticks of the last moment: older records have been added, except for those within the Horizon
	whole int64
}

// add adds records of a source. Their order is certain, but their ticks are not: the counters of
// two processors differ, and a writer may be preempted after reading the clock. A record with an
// earlier tick than the record before it gets the tick of that record. A Lost record has a tick of
// the reader, and changes no other tick.
func (o *order) add(s event.Source, recs []event.Record) {
	if o.latest == nil {
		o.latest = map[int]int64{}
	}
	latest := o.latest[s.ID]
	for _, r := range recs {
		switch {
		case r.Kind() == event.Lost:
		case r.Ticks() < latest:
			r = event.Make(latest, r.Kind(), r.A, r.B, r.C)
		default:
			latest = r.Ticks()
		}
		o.held = append(o.held, Event{Record: r, Source: s, Process: o.process})
	}
	o.latest[s.ID] = latest
}

// moment adjusts the rate to a pair of clock readings, and returns the records that are older than
// m by the Horizon, in order, as due does.
func (o *order) moment(m event.Moment) []Event {
	o.whole = m.Ticks
	if m.Ticks > o.start.Ticks && !o.fixed {
		o.rate = float64(m.Wall-o.start.Wall) / float64(m.Ticks-o.start.Ticks)
	}
	if o.rate > 0 {
		return o.due(m.Ticks - int64(float64(Horizon)/o.rate))
	}
	return nil
}

// time returns the time at a tick.
func (o *order) time(ticks int64) int64 {
	return o.start.Wall + int64(float64(ticks-o.start.Ticks)*o.rate) + o.shift
}

// due returns the records before a tick, in order. Records of one source with equal ticks keep
// their order. The result is valid until drop, which must be the next call.
func (o *order) due(before int64) []Event {
	if o.rate == 0 {
		// there was no moment: the clock is in nanoseconds, or the recording too short for a rate
		o.rate = 1
	}
	slices.SortStableFunc(o.held, func(a, b Event) int { return cmp.Compare(a.Ticks(), b.Ticks()) })
	n, _ := slices.BinarySearchFunc(o.held, before, func(e Event, t int64) int { return cmp.Compare(e.Ticks(), t) })
	// Later records of these sources are returned after these records anyway.
	maps.DeleteFunc(o.latest, func(_ int, ticks int64) bool { return ticks < before })
	for i := range o.held[:n] {
		e := &o.held[i]
		e.Time = max(o.last, o.time(e.Ticks()))
		o.last = e.Time
	}
	return o.held[:n]
}

// drop removes the first n records.
func (o *order) drop(n int) { o.held = o.held[:copy(o.held, o.held[n:])] }

// Sink calls Out with the records of a recording in order, while it is made.
type Sink struct {
	Out func(*Event)
	// Over is called at the end.
	Over func() error
	order
}

// Begin is a sink's.
func (s *Sink) Begin(r *event.Recorder) { s.start = r.Start() }

// Events is a sink's.
func (s *Sink) Events(src *event.Source, recs []event.Record) { s.add(*src, recs) }

// Flush is a sink's.
func (s *Sink) Flush(m event.Moment) error {
	s.give(s.moment(m))
	return nil
}

// Idle is a sink's.
func (s *Sink) Idle() error { return nil }

// Close is a sink's.
func (s *Sink) Close() error {
	s.give(s.due(1 << 62))
	if s.Over != nil {
		return s.Over()
	}
	return nil
}

func (s *Sink) give(due []Event) {
	for i := range due {
		s.Out(&due[i])
	}
	s.drop(len(due))
}

// Set is the files of one run.
type Set struct {
	traces   []*trace   // by rank
	machines []*machine // if there are several traces
}

// machine is processes with one clock.
type machine struct {
	host        string
	traces      []*trace
	shift       int64 // added to its times
	uncertainty int64 // bound of the error of shift; -1: not known
	how         string
}

// trace is one file that is read.
type trace struct {
	*journal.Reader
	name  string
	file  *os.File
	order order
	ready []Event // the result of order.due or order.moment
	at    int
	err   error // io.EOF after a whole file
}

// fill reads blocks until there is a record to return, or an error.
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
