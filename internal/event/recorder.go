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
	// Events takes what one source has recorded since the last call, in its order. It must not keep
	// records. Sources come one after the other, so that the order of events of different sources
	// is that of their times, not of the calls.
	Events(s *Source, records []Record)
	// Flush is called when what was recorded before some moment has come, with that moment. A
	// writer that is held up between the look at the clock and the record may still come with
	// something older.
	Flush(m Moment) error
	// Idle is called after a Flush when, for now, nobody records any more: the program may end
	// without a Close.
	Idle() error
	// Close is called once, at the end, after the last Flush.
	Close() error
}

// Options set a recording up. The zero value is good.
type Options struct {
	// Ring is how many events of each source are kept until the sinks have taken them, a power of
	// two. 0 means DefaultRing. An event takes 32 bytes.
	Ring int
	// Sample is of how many tasks one is recorded, by chance: the others are counted by where they
	// come from, and have the number 0. Parts of recorded loops and main tasks are always recorded.
	// 0 and 1 record all. Adaptive is a number that follows how quickly tasks come.
	Sample int
	// Eager has Adaptive record all tasks until Thin is called, and makes who records wait for room
	// until then, as Patient does.
	Eager bool
	// Patient makes who records wait for room where a ring is full. It is for tests that need all
	// events: what is recorded then goes at the pace of the sinks.
	Patient bool
	// Stacks asks runtimes to record the stack of the spawn of each task that is recorded:
	// Origin.Stack.
	Stacks bool
	// Annotate asks runtimes to make tasks known to Go's own tools as well: labels of CPU samples,
	// and regions of runtime/trace.
	Annotate bool
	// Wants are the kinds that are recorded. 0 means all.
	Wants Set
	// Sinks consume the recording.
	Sinks []Sink
	// Every is how often the sinks get what there is. 0 means 100 ms. A ring that is half full is
	// emptied at once in any case.
	Every time.Duration
}

// DefaultRing is the size of a ring: 2 MiB of memory (some milliseconds of tasks that do nothing,
// which gives the reader time to come).
const DefaultRing = 1 << 16

// MaxSample bounds Options.Sample.
const MaxSample = 1 << 20

const (
	minRing   = 1 << 6
	maxRing   = 1 << 26
	drainTurn = 100 * time.Millisecond // guess: what a person who watches does not notice
)

// A Recorder records the events of some runtimes and ranks. Its memory is that of the rings,
// whatever happens. Any goroutine may call its methods.
type Recorder struct {
	// Constant after construction.
	opt   Options // without zeros that stand for something
	clock *Clock
	names Names
	work  chan struct{} // capacity 1: a ring is half full
	stop  chan struct{}
	ended chan struct{} // closed when the reader has ended

	tasks  atomic.Uint64 // numbers of tasks given out
	others atomic.Uint64 // numbers of requests, windows and so on
	groups atomic.Int64
	users  atomic.Int64 // parts of the program that record
	eager  atomic.Bool  // all tasks are recorded for now, though Adaptive
	deaf   atomic.Bool  // nobody empties the rings any more

	mu       sync.Mutex
	rings    []ring     // +checklocks:mu
	next     int        // number of the next source. +checklocks:mu
	gone     uint64     // losses of rings that are gone. +checklocks:mu
	samplers []*Sampler // +checklocks:mu

	// drain orders the readers, and guards what sinks do. It is taken before mu.
	drain sync.Mutex
	err   error // the first of a sink. +checklocks:drain
	over  bool  // the sinks are closed. +checklocks:drain
}

// Check says what in the options is not legal, and what is. New does so, too; who makes files for
// its sinks asks before.
func (o Options) Check() error {
	if o.Ring != 0 && (o.Ring < minRing || o.Ring > maxRing || bits.OnesCount(uint(o.Ring)) != 1) {
		return fmt.Errorf("event: a ring of %d events; legal are powers of two from %d to %d, and 0 for %d", o.Ring, minRing, maxRing, DefaultRing)
	}
	if o.Sample < Adaptive || o.Sample > MaxSample {
		return fmt.Errorf("event: one task of %d is to be recorded; legal are 0 and 1, for all, to %d, and %d for as many as cost little", o.Sample, MaxSample, Adaptive)
	}
	if o.Every < 0 {
		return fmt.Errorf("event: sinks are to get events every %v; legal are positive times, and 0 for %v", o.Every, drainTurn)
	}
	return nil
}

// New returns a recorder, which records until Close. The error is Check's.
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

// Names returns the recording's texts.
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

// drop forgets a ring that is empty and over.
func (r *Recorder) drop(g ring) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = slices.DeleteFunc(r.rings, func(x ring) bool { return x == g })
	r.gone += g.losses()
}

// Attach counts one more part of the program that records.
func (r *Recorder) Attach() { r.users.Add(1) }

// Detach counts one less. When there is none, the sinks make what they have whole.
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

// Group returns a new number for Place.Group.
func (r *Recorder) Group() int { return int(r.groups.Add(1)) }

// TaskIDs returns the first of n new numbers for tasks.
func (r *Recorder) TaskIDs(n uint64) uint64 { return r.tasks.Add(n) - n + 1 }

// ID returns a new number for a request or a window.
func (r *Recorder) ID() uint64 { return r.others.Add(1) }

// Lost returns how many events had no room.
func (r *Recorder) Lost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.gone
	for _, g := range r.rings {
		n += g.losses()
	}
	return n
}

// read is the goroutine that empties the rings.
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

// empty gives the sinks what there is.
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
		if n := g.losses(); n != s.told {
			note := [1]Record{Make(Ticks(), Lost, n-s.told, 0, 0)}
			s.told = n
			for _, k := range r.opt.Sinks {
				k.Events(&s.Source, note[:])
			}
		}
		if over {
			r.drop(g)
		}
	}
}

// Flush gives the sinks all that is recorded, and has them write it. It returns the first error
// of a sink, ever.
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

// Close flushes and ends the recording, and closes the sinks. What is recorded afterwards goes
// nowhere. It returns the first error of a sink, ever; later calls return the same.
func (r *Recorder) Close() error {
	if !r.deaf.Swap(true) {
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
			// a file that could not be written says so at each call
			r.err = errors.Join(r.err, err)
		}
	}
	return r.err
}
