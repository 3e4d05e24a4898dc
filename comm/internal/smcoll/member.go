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
	return &Member{st: st, rank: rank, host: host, hist: hist, hasFailed: troubled}
}

// NewMapped returns the seat of a rank whose communicator's ranks are processes of one machine:
// they meet in part number index of each one's memory, mine of which is the caller's. It returns
// nil if there is no such part.
func NewMapped(size, rank, index int, mine []byte, host Host, hist *coll.History, troubled *atomic.Bool, w *Staging) *Member {
	if rowAt(mine, index) == nil {
		return nil
	}
	s := NewMember(newSegment(size, true), rank, host, hist, troubled)
	s.index, s.staging = index, w
	s.reached = s.allReached
	return s
}

// Segment returns where it is.
func (s *Member) Segment() *Segment { return s.st }

// Takes reports whether a collective of all ranks is made here, by what all know alike, and notes
// how.
func (s *Member) Supports(d *coll.Call) bool {
	d.Large = d.CellBytes(s.st.size) > DataMax
	switch {
	case s.st.mapped:
		return !d.Large || d.Kind == coll.Allreduce && fitsStaging(d)
	case !d.Large:
		return s.st.size <= FlatRanks
	}
	d.Total = pieces(d, s.st.size)
	return true
}

// Outcome says what has become of a blocking collective.
type Outcome uint8

const (
	Done        Outcome = iota // it is over
	NoCell                     // there is no place; a request may wait for one
	UseMessages                // it is made of messages
)

// Meet makes a collective that Takes has said yes to, and waits for it.
func (s *Member) Do(d *coll.Call) (Outcome, error) {
	if err := s.failure(); err != nil {
		// a rank that gives up shows nothing: the others would go on, as if nothing were wrong
		return Done, s.host.Fail(d.What, err)
	}
	if !s.pin() {
		return Done, s.host.Fail(d.What, s.host.Failure())
	}
	if s.st.mapped {
		defer s.unpin()
		if d.Large {
			return s.doLarge(d)
		}
	}
	seq, err := s.enter(d, nil)
	switch {
	case err != nil:
		return Done, s.failUnpublished(d, err)
	case seq == 0:
		return NoCell, nil
	}
	_, err = s.Run(d, seq, true)
	return Done, err
}

// meetLarge is Meet of a large collective in mapped memory.
func (s *Member) doLarge(d *coll.Call) (Outcome, error) {
	d.Total = byMessages
	if err := s.open(); err != nil {
		return Done, s.failUnpublished(d, err)
	}
	w := s.staging
	if w.acquire(s) {
		d.Total = byStaging
		defer w.release()
	}
	seq, err := s.enter(d, nil)
	switch {
	case err != nil:
		return Done, s.failUnpublished(d, err)
	case seq == 0:
		return NoCell, nil
	}
	if d.Total == byStaging {
		s.fillStaging(d, 0) // the others may be late
	}
	if _, err = s.Run(d, seq, true); err == errUseMessages {
		return UseMessages, nil
	}
	return Done, err
}

// Enter begins what Meet does, where all ranks are in this process; Run then goes on with it. It
// returns false if that is not to be: Meet finds out why. Each call less on the stack of a caller
// that sleeps is a mispredicted return less.
func (s *Member) Enter(d *coll.Call) (seq uint64, ok bool) {
	if s.st.mapped || s.hasFailed.Load() {
		return 0, false
	}
	seq, _ = s.enter(d, nil)
	return seq, seq != 0
}

// Start makes a collective that Takes has said yes to, and completes req when it is over.
func (s *Member) Start(d *coll.Call, req Request) {
	err := s.failure()
	if err == nil && !s.pin() {
		err = s.host.Failure()
	}
	if err != nil {
		req.Complete(s.host.Fail(d.What, err))
		return
	}
	defer s.unpin()
	if d.Large && s.st.mapped {
		d.Total = byMessages
	}
	switch seq, err := s.enter(d, req); {
	case err != nil:
		call := *d
		go func() { req.Complete(s.failUnpublished(&call, err)) }()
	case seq != 0:
		s.proceed(d, seq, req)
	}
}

// Close returns when no goroutine uses mapped memory any more, and none will. The run has ended, so
// callers give up soon.
func (s *Member) Close() {
	s.closed.Store(true)
	for s.pins.Load() != 0 {
		if s.st.members[s.rank].Load() != nil {
			s.examineAll()
		}
		runtime.Gosched()
	}
}
