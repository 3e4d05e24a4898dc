// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"runtime"
	"sync/atomic"

	"weft/comm/internal/coll"
)

// NewMember returns the Member of a rank at a segment on the heap. hasFailed says whether
// [Host.Failure] may return an error.
func NewMember(st *Segment, rank int, host Host, hist *coll.History, hasFailed *atomic.Bool) *Member {
	return &Member{st: st, rank: rank, host: host, hist: hist, hasFailed: hasFailed}
}

// NewMapped returns the Member of a rank of a communicator whose ranks are processes of one
// machine. The rows of the communicator are number index in each rank's memory; mine is this rank's
// memory. NewMapped returns nil if there is no row of that index.
func NewMapped(size, rank, index int, mine []byte, host Host, hist *coll.History, hasFailed *atomic.Bool, w *Staging) *Member {
	if rowAt(mine, index) == nil {
		return nil
	}
	s := NewMember(newSegment(size, true), rank, host, hist, hasFailed)
	s.index, s.staging = index, w
	s.reached = s.allReached
	return s
}

// Segment returns the member's segment.
func (s *Member) Segment() *Segment { return s.st }

// Supports reports whether a collective of all ranks runs in shared memory, and notes in d how. The
// answer depends only on what all ranks know alike.
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

// Outcome is the result of [Member.Do].
type Outcome uint8

const (
	Done        Outcome = iota // the collective is over
	NoCell                     // no cell is free; a request may wait for one
	UseMessages                // all ranks run this collective by messages
)

// Do runs a collective that Supports has accepted, and waits for it.
func (s *Member) Do(d *coll.Call) (Outcome, error) {
	if err := s.failure(); err != nil {
		// A rank that gives up publishes nothing: the others would go on as if nothing were wrong.
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

// doLarge is Do for a large collective in mapped memory.
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
		s.fillStaging(d, 0) // before the others have come
	}
	if _, err = s.Run(d, seq, true); err == errUseMessages {
		return UseMessages, nil
	}
	return Done, err
}

// Enter is the first half of Do for a segment on the heap; Run is the second. Enter returns false
// if Do has to be used instead, which finds out why. The split keeps the stack of a sleeping caller
// short: each call on it costs a mispredicted return.
func (s *Member) Enter(d *coll.Call) (seq uint64, ok bool) {
	if s.st.mapped || s.hasFailed.Load() {
		return 0, false
	}
	seq, _ = s.enter(d, nil)
	return seq, seq != 0
}

// Start begins a collective that Supports has accepted, and completes req when it is over.
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

// Close waits until no goroutine uses mapped memory, and lets none use it afterwards. The run has
// ended, so callers give up soon.
func (s *Member) Close() {
	s.closed.Store(true)
	for s.pins.Load() != 0 {
		if s.st.members[s.rank].Load() != nil {
			s.examineAll()
		}
		runtime.Gosched()
	}
}
