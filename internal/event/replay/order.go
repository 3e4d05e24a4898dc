// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package replay puts recorded events in the order of their times: those of one recording, from a
// file or as they come, and those of the files of several processes.
//
//	set, err := replay.Open("run.rank0.weft", "run.rank1.weft")
//	for e, err := range set.Events() { … }
//
// Memory is bounded: of each recording, what happened in the last Horizon before the place that is
// read is kept, to be sorted.
//
// Times of one machine are compared by its clock; those of several machines by the messages between
// them: README.md.
//
// All of it belongs to one goroutine.
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

// Horizon is how much later than another event one may come in a recording that happened before it.
// A writer may be held up between its look at the clock and its record, for as long as the
// operating system gives the processor to others.
const Horizon = 200 * time.Millisecond

// Event is an event in its place.
type Event struct {
	event.Record
	Source  event.Source
	Process int   // number of the recording, in the order of Open
	Time    int64 // nanoseconds since 1970, by the clock of the first recording
}

// order sorts the events of one recording.
type order struct {
	start   event.Moment
	rate    float64 // nanoseconds per tick
	fixed   bool    // start and rate are known, and stay
	held    []Event
	process int
	latest  map[int]int64 // by source: the latest tick of its events so far
	shift   int64         // to be added to times
	last    int64         // time of the event that came out last
	whole   int64         // ticks of the last moment: what is older has come, but for the horizon
}

// add takes records. The order within a source is certain, and its clock is not: the counters of
// two processors disagree, and a writer may be held up after its look. An event that is dated
// before the one in front of it has happened since, and gets that one's time. What the reader says
// of losses is dated by the reader, and dates nothing else.
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

// moment takes a pair of clock readings and returns what is older by the horizon, in order: see
// due.
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

// due returns what happened before some tick, in order. Events of one source with the same time
// stay in their order. They are there until drop is called for them, before anything else is.
func (o *order) due(before int64) []Event {
	if o.rate == 0 {
		// there was no moment: the clock is in nanoseconds, or the trace too short to tell
		o.rate = 1
	}
	slices.SortStableFunc(o.held, func(a, b Event) int { return cmp.Compare(a.Ticks(), b.Ticks()) })
	n, _ := slices.BinarySearchFunc(o.held, before, func(e Event, t int64) int { return cmp.Compare(e.Ticks(), t) })
	// What comes of a source after this comes out after it in any case.
	maps.DeleteFunc(o.latest, func(_ int, ticks int64) bool { return ticks < before })
	for i := range o.held[:n] {
		e := &o.held[i]
		e.Time = max(o.last, o.time(e.Ticks()))
		o.last = e.Time
	}
	return o.held[:n]
}

// drop takes the first n events out.
func (o *order) drop(n int) { o.held = o.held[:copy(o.held, o.held[n:])] }

// Sink calls Out with the events of a recording in their order, while it is made.
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
