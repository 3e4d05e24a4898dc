// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"weft/comm/internal/coll"
	"weft/internal/race"
)

// barred returns why the collectives of this rank cannot go on, nil if nothing is in their way.
func (s *Member) failure() error {
	if !s.hasFailed.Load() {
		return nil
	}
	return s.host.Failure()
}

// hold keeps mapped memory until leave; it returns false if that is about to go away.
func (s *Member) pin() bool {
	if !s.st.mapped {
		return true
	}
	s.pins.Add(1)
	if s.closed.Load() {
		s.pins.Add(-1)
		return false
	}
	return true
}

func (s *Member) unpin() {
	if s.st.mapped {
		s.pins.Add(-1)
	}
}

// room reports whether the rank's place for a collective is free: whether all ranks have finished
// the one before in it.
func (s *Member) cellFree(seq uint64) bool {
	if seq <= Width {
		return true
	}
	old := seq - Width
	if s.known.Load() >= old {
		return true
	}
	for r := range s.st.rows { //bug:cell-free
		if p := s.st.rows[r].Load(); p == nil || p.finished[seq%Width].Load() < old {
			return false
		}
	}
	return true //bug:cell-free
}

// wait puts something into the queue. The caller holds hist.Mu.
func (s *Member) enqueue(one queuedOp) {
	s.queue = append(s.queue, one)
	s.row.queued.Add(1)
	s.st.queuedAll.Add(1)
}

// waited takes n out of the count of those that wait.
func (s *Member) dequeued(n int) {
	s.row.queued.Add(-int32(n))
	s.st.queuedAll.Add(-int32(n))
}

// open makes the rank's part, and finds those of other processes, if it has not. The caller holds
// hist.Mu.
func (s *Member) openLocked() error {
	if s.entries != nil {
		return nil
	}
	if !s.st.mapped {
		s.row = new(row)
	} else if err := s.connect(); err != nil {
		return err
	}
	s.entries = new([Width]entry)
	s.st.members[s.rank].Store(s)
	s.st.rows[s.rank].Store(s.row)
	return nil
}

// opened is open for a caller that does not hold hist.Mu.
func (s *Member) open() error {
	s.hist.Mu.Lock()
	defer s.hist.Mu.Unlock()
	return s.openLocked()
}

// lost is the error of memory that cannot be had.
type memoryError struct {
	rank int
	error
}

// failed is the error of a collective that nothing was shown of. The caller holds nothing.
func (s *Member) failUnpublished(d *coll.Call, err error) error {
	if of, ok := err.(*memoryError); ok {
		err = s.host.Lost(of.rank, of.error)
	}
	return s.host.Fail(d.What, err)
}

// connect finds the parts of all ranks. The caller holds hist.Mu.
func (s *Member) connect() error {
	parts, windows := make([]*row, s.st.size), make([]stagingBuffer, s.st.size)
	for r := range parts {
		mem, err := s.host.Memory(r)
		if err != nil {
			return &memoryError{r, err}
		}
		parts[r], windows[r] = rowAt(mem, s.index), stagingAt(mem)
	}
	s.row, s.buffers, s.st.queuedAll = parts[s.rank], windows, &parts[0].queuedAll
	for r, p := range parts {
		if r != s.rank {
			s.st.rows[r].Store(p)
		}
	}
	return nil
}

// publish fills the rank's place and shows it. The caller holds hist.Mu.
func (s *Member) publish(d *coll.Call, seq uint64, req Request) {
	s.next = seq
	for s.floor+1 < seq && s.row.finished[(s.floor+1)%Width].Load() == s.floor+1 {
		s.floor++
	}
	p, e := &s.row.cells[seq%Width], &s.entries[seq%Width]
	elem := d.Elem()
	s.hist.Record(d, elem)
	e.acquire()
	p.what, p.elem, p.unit, p.floor = d.What, elem, uint64(d.Unit), s.floor
	e.req = req
	if req != nil || s.st.inPieces(d) {
		e.fill(d)
	}
	switch {
	case d.Large && s.st.mapped:
		d.Seq = s.host.Number()
		p.data[0] = byte(d.Total)
	case d.Large:
		e.packBuffers()
	default:
		if n := d.Published(s.rank, s.st.size); n > 0 {
			d.In.Pack(p.data[:n])
		}
	}
	p.state.Store(stateOf(seq, active))
}

// fill comes before the place says that its rank waits.
func (e *entry) fill(d *coll.Call) {
	e.Call, e.filled = *d, true
	e.release()
}

// empty lets go of what the caller has.
func (e *entry) empty() {
	e.In.Forget()
	e.Out.Forget()
	e.req, e.Op, e.filled = nil, nil, false
}

// release comes before an entry goes to another goroutine by what is shown, acquire when it has
// come. What is shown orders them by itself, but the race detector knows nothing of mapped memory.
func (e *entry) release() {
	if race.Detector {
		e.order.Add(1)
	}
}

func (e *entry) acquire() {
	if race.Detector {
		e.order.Load()
	}
}

// recorded follows what adds to the history, when its lock is free.
func (s *Member) compareHistory() {
	if s.hist.Behind() {
		s.host.Compare()
	}
}

// Note adds what ranks make in another way to the history, in its turn, and returns its number
// there.
func (s *Member) Note(k coll.Kind) uint64 {
	s.hist.Mu.Lock()
	defer s.compareHistory()
	defer s.hist.Mu.Unlock()
	if len(s.queue) > 0 { // which are not numbered yet
		s.enqueue(queuedOp{d: coll.Call{Kind: k}})
		return s.hist.Count() + uint64(len(s.queue))
	}
	return s.hist.Note(k)
}

// Next returns the number that the rank's next collective will have in the history.
func (s *Member) Next() uint64 {
	s.hist.Mu.Lock()
	defer s.hist.Mu.Unlock()
	return s.hist.Count() + uint64(len(s.queue)) + 1
}

// Turn adds a collective that is made of messages to the history, in its turn, and numbers it. It
// returns false if others of this rank come first, which wait for a place; req waits then as well,
// if it is not nil.
func (s *Member) Turn(d *coll.Call, req Request) bool {
	s.hist.Mu.Lock()
	defer s.compareHistory()
	defer s.hist.Mu.Unlock()
	if len(s.queue) > 0 {
		if req != nil {
			s.enqueue(queuedOp{*d, req, true})
		}
		return false
	}
	s.number(d)
	return true
}

// number is Turn when it has come. The caller holds hist.Mu.
func (s *Member) number(d *coll.Call) {
	s.hist.Record(d, d.Elem())
	d.Seq = s.host.Number()
}
