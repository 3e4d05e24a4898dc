// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"weft/comm/internal/coll"
	"weft/internal/race"
)

// failure returns why no collective of this rank can go on; nil if nothing prevents that.
func (s *Member) failure() error {
	if !s.hasFailed.Load() {
		return nil
	}
	return s.host.Failure()
}

// pin keeps mapped memory mapped until unpin. It returns false after Close has been called.
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

// cellFree reports whether the rank's cell for a collective is free: whether all ranks have
// finished the previous collective in it.
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

// enqueue appends an operation to the queue. The caller holds hist.Mu.
func (s *Member) enqueue(one queuedOp) {
	s.queue = append(s.queue, one)
	s.row.queued.Add(1)
	s.st.queuedAll.Add(1)
}

// dequeued subtracts n from the counts of queued operations.
func (s *Member) dequeued(n int) {
	s.row.queued.Add(-int32(n))
	s.st.queuedAll.Add(-int32(n))
}

// openLocked makes the rank's row, and finds the rows of other processes, if that is not done yet.
// The caller holds hist.Mu.
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

// open is openLocked for a caller that does not hold hist.Mu.
func (s *Member) open() error {
	s.hist.Mu.Lock()
	defer s.hist.Mu.Unlock()
	return s.openLocked()
}

// memoryError is the error of a rank's memory that is not available.
type memoryError struct {
	rank int
	error
}

// failUnpublished returns the error of a collective of which the rank has published nothing. The
// caller holds no lock.
func (s *Member) failUnpublished(d *coll.Call, err error) error {
	if of, ok := err.(*memoryError); ok {
		err = s.host.Lost(of.rank, of.error)
	}
	return s.host.Fail(d.What, err)
}

// connect finds the rows and staging buffers of all ranks. The caller holds hist.Mu.
func (s *Member) connect() error {
	rows, buffers := make([]*row, s.st.size), make([]stagingBuffer, s.st.size)
	for r := range rows {
		mem, err := s.host.Memory(r)
		if err != nil {
			return &memoryError{r, err}
		}
		rows[r], buffers[r] = rowAt(mem, s.index), stagingAt(mem)
	}
	s.row, s.buffers, s.st.queuedAll = rows[s.rank], buffers, &rows[0].queuedAll
	for r, p := range rows {
		if r != s.rank {
			s.st.rows[r].Store(p)
		}
	}
	return nil
}

// publish fills the rank's cell and publishes it, active. The caller holds hist.Mu.
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

// fill fills the entry. The caller stores passive or asleep in the cell afterwards.
func (e *entry) fill(d *coll.Call) {
	e.Call, e.filled = *d, true
	e.release()
}

// empty drops all references to the caller's buffers.
func (e *entry) empty() {
	e.In.Forget()
	e.Out.Forget()
	e.req, e.Op, e.filled = nil, nil, false
}

// release is called before an entry passes to another goroutine by a store to the cell's state or
// to finished, and acquire after the load. The store and the load order the accesses by themselves,
// but the race detector does not see them in mapped memory.
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

// compareHistory compares the history with other ranks' if that is due. It is called after each
// addition to the history, when the history's lock is free.
func (s *Member) compareHistory() {
	if s.hist.Behind() {
		s.host.Compare()
	}
}

// Note adds an operation that runs outside of this package to the history, after the queued
// operations, and returns its number there.
func (s *Member) Note(k coll.Kind) uint64 {
	s.hist.Mu.Lock()
	defer s.compareHistory()
	defer s.hist.Mu.Unlock()
	if len(s.queue) > 0 { // queued operations have no numbers yet
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

// Turn adds a collective that runs by messages to the history, and numbers it. It returns false if
// operations of this rank are queued, which come first. Then req, if it is not nil, is queued as
// well.
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

// number adds a collective that runs by messages to the history, and numbers it. The caller holds
// hist.Mu.
func (s *Member) number(d *coll.Call) {
	s.hist.Record(d, d.Elem())
	d.Seq = s.host.Number()
}
