// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/waits"
)

// A Sink consumes a recording. Its methods are called by one goroutine at a time.
type Sink interface {
	// Begin is called once, before the other methods.
	Begin(r *Recorder)
	// Events receives what one source has recorded since the last call, in the order of the
	// records. The sink must not keep the slice. Sources are passed one after another: records of
	// different sources are ordered by their times, not by the calls.
	Events(s *Source, records []Record)
	// Flush is called after the sink has received every record from before m. One exception: a
	// writer that was preempted between reading the clock and storing its record may still add an
	// older record later.
	Flush(m Moment) error
	// Idle is called after a Flush when no part of the program records any more, for now. The
	// program may end without a Close.
	Idle() error
	// Close is called once, at the end, after the last Flush.
	Close() error
}

// Options configure a recording. The zero value is valid.
type Options struct {
	// Ring is how many records of each source are buffered for the sinks: a power of two. 0 means
	// DefaultRing. A record takes 32 bytes.
	Ring int
	// Sample n records one task in n, chosen at random. The other tasks have the number 0, and are
	// counted by origin. Tasks of recorded loops and main tasks are always recorded. 0 and 1 record
	// all tasks. Adaptive adjusts n to the rate of tasks.
	Sample int
	// Eager makes Adaptive record all tasks until Thin is called. Until then, writers wait for
	// room, as with Patient.
	Eager bool
	// Patient makes a writer wait for room if its ring is full. It is for tests that need every
	// record: the program then runs no faster than the sinks.
	Patient bool
	// Stacks asks runtimes to record the stack of the spawn of each recorded task: Origin.Stack.
	Stacks bool
	// Annotate asks runtimes to show tasks in Go's own tools: as labels of CPU samples, and as
	// regions of runtime/trace.
	Annotate bool
	// Wants are the kinds that are recorded. 0 means all.
	Wants Set
	// Sinks consume the recording.
	Sinks []Sink
	// Every is the interval at which records are passed to the sinks. 0 means 100 ms. A ring that
	// is half full is emptied at once.
	Every time.Duration
}

// DefaultRing is the default of Options.Ring: 2 MiB of memory. It holds a few milliseconds of empty
// tasks, in which the reader can wake up.
const DefaultRing = 1 << 16

// MaxSample bounds Options.Sample.
const MaxSample = 1 << 20

const (
	minRing   = 1 << 6
	maxRing   = 1 << 26
	drainTurn = 100 * time.Millisecond // guess: too short for a person to notice
)

// A Recorder records the trace events of some runtimes and ranks. Its memory is that of the rings,
// and does not grow with the number of events. Any goroutine may call its methods.
type Recorder struct {
	// Constant after construction.
	opt   Options // zeros are replaced by their defaults
	clock *Clock
	names Names
	work  chan struct{} // capacity 1: wakes the reader, as a ring is half full
	stop  chan struct{}
	ended chan struct{} // closed at the end of the reader goroutine

	tasks   atomic.Uint64 // last number of a task
	others  atomic.Uint64 // last number of a request or a window
	groups  atomic.Int64  // last number of Location.Group
	users   atomic.Int64  // parts of the program that record
	eager   atomic.Bool   // Options.Eager, until Thin
	closing atomic.Bool   // Close was called: the reader ends, and writers must not wait for room

	mu       sync.Mutex
	rings    []ring     // +checklocks:mu
	next     int        // number of the next source. +checklocks:mu
	gone     uint64     // records lost in dropped rings. +checklocks:mu
	samplers []*Sampler // +checklocks:mu

	// drain serializes reading of rings and calls of sinks. It is locked before mu.
	drain sync.Mutex
	err   error // the first error of a sink. +checklocks:drain
	over  bool  // the sinks are closed. +checklocks:drain
}

// Check returns an error that names an illegal option and its legal values. New calls it, too; a
// caller that creates files for its sinks calls it first.
func (o Options) Check() error {
	if o.Ring != 0 && (o.Ring < minRing || o.Ring > maxRing || bits.OnesCount(uint(o.Ring)) != 1) {
		return fmt.Errorf("event: a ring of %d records; legal are powers of two from %d to %d, and 0 for %d", o.Ring, minRing, maxRing, DefaultRing)
	}
	if o.Sample < Adaptive || o.Sample > MaxSample {
		return fmt.Errorf("event: one task of %d is to be recorded; legal are 0 and 1, which record all, up to %d, and %d, which adapts to the rate of tasks", o.Sample, MaxSample, Adaptive)
	}
	if o.Every < 0 {
		return fmt.Errorf("event: sinks are to receive records every %v; legal are positive times, and 0 for %v", o.Every, drainTurn)
	}
	return nil
}

// New returns a recorder, which records until Close. Its error is that of Check.
func New(o Options) (*Recorder, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Ring = cmp.Or(o.Ring, DefaultRing)
	o.Wants = cmp.Or(o.Wants, All) & All
	o.Every = cmp.Or(o.Every, drainTurn)
	r := &Recorder{opt: o, clock: newClock(), work: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	r.eager.Store(o.Eager)
	for _, k := range r.opt.Sinks {
		k.Begin(r)
	}
	go waits.Service(func() { r.read(o.Every) })()
	return r, nil
}

// Clock returns the recording's clock.
func (r *Recorder) Clock() *Clock { return r.clock }

// Start returns the moment when the recording began.
func (r *Recorder) Start() Moment { return r.clock.first }

// Names returns the recording's table of texts.
func (r *Recorder) Names() *Names { return &r.names }

// Wants returns the kinds that are recorded.
func (r *Recorder) Wants() Set { return r.opt.Wants }

// Ring returns a new ring for a writer.
func (r *Recorder) Ring(p Location) *Ring {
	g := &Ring{buf: make([]Record, r.opt.Ring)}
	r.add(g, p)
	return g
}

// Shared returns a new ring for any number of writers.
func (r *Recorder) Shared(p Location) *Shared {
	g := &Shared{cells: make([]cell, r.opt.Ring)}
	r.add(g, p)
	return g
}

func (r *Recorder) add(g ring, p Location) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := g.self()
	s.rec, s.Wants, s.Source = r, r.opt.Wants, Source{r.next, p}
	r.next++
	r.rings = append(r.rings, g)
}

// drop removes a retired, empty ring.
func (r *Recorder) drop(g ring) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = slices.DeleteFunc(r.rings, func(x ring) bool { return x == g })
	r.gone += g.losses()
}

// Attach adds one to the parts of the program that record.
func (r *Recorder) Attach() { r.users.Add(1) }

// Detach subtracts one. If no part is left, Detach flushes and calls Idle of the sinks.
func (r *Recorder) Detach() {
	if r.users.Add(-1) != 0 {
		return
	}
	r.drain.Lock()
	defer r.drain.Unlock()
	_ = r.flushLocked()
	if r.over {
		return
	}
	for _, k := range r.opt.Sinks {
		r.err = cmp.Or(r.err, k.Idle())
	}
}

// Group returns a new number for Location.Group.
func (r *Recorder) Group() int { return int(r.groups.Add(1)) }

// TaskIDs returns the first of n new numbers for tasks.
func (r *Recorder) TaskIDs(n uint64) uint64 { return r.tasks.Add(n) - n + 1 }

// ID returns a new number for a request or a window.
func (r *Recorder) ID() uint64 { return r.others.Add(1) }

// Lost returns how many records were lost because rings were full.
func (r *Recorder) Lost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.gone
	for _, g := range r.rings {
		n += g.losses()
	}
	return n
}

// read is the body of the reader goroutine.
func (r *Recorder) read(every time.Duration) {
	defer close(r.ended)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.work:
			r.empty()
		case <-tick.C:
			_ = r.Flush() // Close returns the error
		}
	}
}

// empty passes all records in the rings to the sinks.
func (r *Recorder) empty() {
	r.drain.Lock()
	defer r.drain.Unlock()
	r.emptyLocked()
}

// +checklocks:r.drain
func (r *Recorder) emptyLocked() {
	if r.over {
		return
	}
	r.mu.Lock()
	rings := slices.Clone(r.rings)
	r.mu.Unlock()
	for _, g := range rings {
		s := g.self()
		over := s.over.Load()
		g.take(func(recs []Record) {
			for _, k := range r.opt.Sinks {
				k.Events(&s.Source, recs)
			}
		})
		if n := g.losses(); n != s.reported {
			note := [1]Record{Make(Ticks(), Lost, n-s.reported, 0, 0)}
			s.reported = n
			for _, k := range r.opt.Sinks {
				k.Events(&s.Source, note[:])
			}
		}
		if over {
			r.drop(g)
		}
	}
}

// Flush passes all records to the sinks and flushes the sinks. It returns the first error that a
// sink has ever returned.
func (r *Recorder) Flush() error {
	r.drain.Lock()
	defer r.drain.Unlock()
	return r.flushLocked()
}

// +checklocks:r.drain
func (r *Recorder) flushLocked() error {
	if r.over {
		return r.err
	}
	m := now()
	r.emptyLocked()
	r.clock.refine(m)
	for _, k := range r.opt.Sinks {
		r.err = cmp.Or(r.err, k.Flush(m))
	}
	return r.err
}

// Close flushes, ends the recording and closes the sinks. Records that are put later are discarded.
// It returns the first error that a sink has ever returned; later calls return the same error.
func (r *Recorder) Close() error {
	if !r.closing.Swap(true) {
		close(r.stop)
	}
	<-r.ended
	r.drain.Lock()
	defer r.drain.Unlock()
	if r.over {
		return r.err
	}
	_ = r.flushLocked()
	r.over = true
	for _, k := range r.opt.Sinks {
		if err := k.Close(); err != nil && !errors.Is(r.err, err) {
			// a journal repeats its write error at each call
			r.err = errors.Join(r.err, err)
		}
	}
	return r.err
}
