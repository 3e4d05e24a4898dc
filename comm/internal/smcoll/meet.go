// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"runtime"
	"sync/atomic"

	"weft/comm/internal/coll"
)

// NewSeat returns the seat of a rank at a stage on the heap.
func NewMember(st *Segment, rank int, host Host, hist *coll.History, troubled *atomic.Bool) *Member {
	return &Member{st: st, rank: rank, host: host, hist: hist, troubled: troubled}
}

// NewMapped returns the seat of a rank whose communicator's ranks are processes of one machine:
// they meet in part number index of each one's memory, mine of which is the caller's. It returns
// nil if there is no such part.
func NewMapped(size, rank, index int, mine []byte, host Host, hist *coll.History, troubled *atomic.Bool, w *Staging) *Member {
	if partAt(mine, index) == nil {
		return nil
	}
	s := NewMember(newStage(size, true), rank, host, hist, troubled)
	s.index, s.windows = index, w
	s.hasCome = s.come
	return s
}

// Segment returns where it is.
func (s *Member) Segment() *Segment { return s.st }

// Takes reports whether a collective of all ranks is made here, by what all know alike, and notes
// how.
func (s *Member) Takes(d *coll.Call) bool {
	d.Large = d.InPlaces(s.st.size) > DataMax
	switch {
	case s.st.mapped:
		return !d.Large || d.Kind == coll.Allreduce && stageable(d)
	case !d.Large:
		return s.st.size <= FlatRanks
	}
	d.Total = pieces(d, s.st.size)
	return true
}

// Outcome says what has become of a blocking collective.
type Outcome uint8

const (
	Met      Outcome = iota // it is over
	Crowded                 // there is no place; a request may wait for one
	Messages                // it is made of messages
)

// Meet makes a collective that Takes has said yes to, and waits for it.
func (s *Member) Meet(d *coll.Call) (Outcome, error) {
	if err := s.barred(); err != nil {
		// a rank that gives up shows nothing: the others would go on, as if nothing were wrong
		return Met, s.host.Fail(d.What, err)
	}
	if !s.hold() {
		return Met, s.host.Fail(d.What, s.host.Barred())
	}
	if s.st.mapped {
		defer s.leave()
		if d.Large {
			return s.meetLarge(d)
		}
	}
	seq, err := s.enter(d, nil)
	switch {
	case err != nil:
		return Met, s.failed(d, err)
	case seq == 0:
		return Crowded, nil
	}
	_, err = s.Run(d, seq, true)
	return Met, err
}

// meetLarge is Meet of a large collective in mapped memory.
func (s *Member) meetLarge(d *coll.Call) (Outcome, error) {
	d.Total = byMessages
	if err := s.opened(); err != nil {
		return Met, s.failed(d, err)
	}
	w := s.windows
	if w.lend(s) {
		d.Total = byWindows
		defer w.returned()
	}
	seq, err := s.enter(d, nil)
	switch {
	case err != nil:
		return Met, s.failed(d, err)
	case seq == 0:
		return Crowded, nil
	}
	if d.Total == byWindows {
		s.show(d, 0) // the others may be late
	}
	if _, err = s.Run(d, seq, true); err == errMixed {
		return Messages, nil
	}
	return Met, err
}

// Enter begins what Meet does, where all ranks are in this process; Run then goes on with it. It
// returns false if that is not to be: Meet finds out why. Each call less on the stack of a caller
// that sleeps is a mispredicted return less.
func (s *Member) Enter(d *coll.Call) (seq uint64, ok bool) {
	if s.st.mapped || s.troubled.Load() {
		return 0, false
	}
	seq, _ = s.enter(d, nil)
	return seq, seq != 0
}

// Start makes a collective that Takes has said yes to, and completes req when it is over.
func (s *Member) Start(d *coll.Call, req Request) {
	err := s.barred()
	if err == nil && !s.hold() {
		err = s.host.Barred()
	}
	if err != nil {
		req.Complete(s.host.Fail(d.What, err))
		return
	}
	defer s.leave()
	if d.Large && s.st.mapped {
		d.Total = byMessages
	}
	switch seq, err := s.enter(d, req); {
	case err != nil:
		call := *d
		go func() { req.Complete(s.failed(&call, err)) }()
	case seq != 0:
		s.proceed(d, seq, req)
	}
}

// Close returns when no goroutine uses mapped memory any more, and none will. The run has ended, so
// callers give up soon.
func (s *Member) Close() {
	s.shut.Store(true)
	for s.inside.Load() != 0 {
		if s.st.seats[s.rank].Load() != nil {
			s.examineAll()
		}
		runtime.Gosched()
	}
}
