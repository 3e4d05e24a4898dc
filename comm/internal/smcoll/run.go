// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"weft/comm/internal/coll"
	"weft/internal/xatomic"
)

// enter publishes the rank's contribution to its next collective and returns the collective's
// number. If no cell is free it returns 0; then req is queued, unless it is nil.
func (s *Member) enter(d *coll.Call, req Request) (seq uint64, err error) {
	mu := &s.hist.Mu
	mu.Lock()
	if err := s.openLocked(); err != nil {
		mu.Unlock()
		return 0, err
	}
	seq = s.next + 1
	if len(s.queue) == 0 && s.cellFree(seq) {
		s.publish(d, seq, req)
		mu.Unlock()
		s.compareHistory()
		return seq, nil
	}
	if req == nil {
		mu.Unlock()
		return 0, nil
	}
	s.enqueue(queuedOp{d: *d, req: req})
	mu.Unlock()
	if s.failure() != nil {
		s.st.Progress() // the call of Progress for this failure may have been before enqueue
	}
	s.st.drain() // a cell may have become free before the others saw the count //bug:queued-drain
	return 0, nil
}

// proceed goes on with a request whose cell is published.
func (s *Member) proceed(d *coll.Call, seq uint64, req Request) {
	if !d.Large || !s.st.mapped {
		s.Run(d, seq, false)
		return
	}
	// The cell tells the other ranks to use messages. This rank needs nothing from them.
	s.notifyWaiters(d, seq, s.comparePublished(&s.row.cells[seq%Width], seq))
	s.entries[seq%Width].empty()
	s.markFinished(seq)
	req.UseMessages(d)
}

// drain starts queued operations of this process's ranks that have a cell now. The first of several
// concurrent calls does the work of all, so that drain does not nest.
func (st *Segment) drain() {
	if st.drains.Add(1) > 1 {
		return
	}
	for n := int32(1); n > 0; n = st.drains.Add(-n) {
		for r := range st.members {
			if s := st.members[r].Load(); s != nil {
				for s.drainOne() {
				}
			}
		}
	}
}

// notifyWaiters notifies the ranks that may have waited for this rank's contribution, and reports
// whether it has woken a caller. The rank is active. all says whether all ranks have published.
func (s *Member) notifyWaiters(d *coll.Call, seq uint64, all bool) (woke bool) {
	switch {
	case s.st.inPieces(d):
	case d.Kind.FromRoot():
		if s.rank != d.Root {
			return false
		}
	case d.Kind.ToRoot():
		if s.rank != d.Root {
			return s.notify(d.Root, seq)
		}
		fallthrough
	default:
		if !all { //bug:notify
			return false
		}
	}
	for i := 1; i < s.st.size; i++ {
		if s.notify((s.rank+i)%s.st.size, seq) {
			woke = true
		}
	}
	return woke
}

// notify ends the operation of rank r if it waits and has what it needs. If r is in another
// process, notify nudges that process instead. It reports whether it has woken a caller.
func (s *Member) notify(r int, seq uint64) (woke bool) {
	q := s.st.cell(r, seq)
	if q == nil {
		return false
	}
	if _, ok := q.isWaiting(seq); !ok {
		return false
	}
	if t := s.st.members[r].Load(); t != nil {
		return t.finishIfReady(q, seq)
	}
	s.host.Nudge(r) //bug:nudge
	return false
}

// finishIfReady ends the operation of this rank if it waits and has what it needs, and reports
// whether it has woken a caller. The goroutine that calls it acts for a rank that is active in the
// same collective, so the cell is not filled again meanwhile.
func (s *Member) finishIfReady(q *cell, seq uint64) (woke bool) {
	e := &s.entries[seq%Width]
	if _, ok := q.isWaiting(seq); !ok || !s.st.ready(&e.Call, s.rank, seq) {
		return false
	}
	if e.Large && !s.st.hasDisagreement(q, seq) && !s.st.complete(&e.Call, seq) {
		return false // the rank that finishes the last piece ends the operation
	}
	if !q.take(seq) {
		return false
	}
	woke = e.req == nil
	s.finishFor(q, seq)
	return woke
}

// finishFor ends the operation of a taken cell with its result. If a user's operator panics, it
// ends with an error.
func (s *Member) finishFor(q *cell, seq uint64) {
	e := &s.entries[seq%Width]
	if s.st.mapped && s.st.hasDisagreement(q, seq) {
		// The other rank's explanation needs progress, which may be this goroutine's to make.
		s.pins.Add(1)
		xatomic.Go(func() {
			defer s.unpin()
			s.finish(&e.Call, seq, s.checkSame(q, &e.Call, seq), false)
		})
		return
	}
	if err := s.checkSame(q, &e.Call, seq); err != nil {
		s.finish(&e.Call, seq, err, false)
		return
	}
	if !e.Op.IsUser() {
		s.finish(&e.Call, seq, s.result(&e.Call, seq), false)
		return
	}
	err := error(coll.ErrOperator)
	defer func() { s.finish(&e.Call, seq, err, false) }()
	err = s.result(&e.Call, seq)
}

// Run goes on with a collective that the rank has published and is active in. A caller's returns
// when the collective is over. A request's may also return when another goroutine has to end it.
// Run returns whether the collective is over, and its error.
func (s *Member) Run(d *coll.Call, seq uint64, caller bool) (bool, error) {
	st := s.st
	p, pieced := &s.row.cells[seq%Width], st.inPieces(d)
	// The rank is active here and at the beginning of each turn of the loop, so all cells of this
	// collective stay as they are.
	all := s.comparePublished(p, seq)
	for first := true; ; first = false {
		if (first || pieced) && s.notifyWaiters(d, seq, all) && caller && !pieced {
			s.woke.Store(true)
		}
		if st.ready(d, s.rank, seq) {
			err := s.checkSame(p, d, seq)
			if err == nil && pieced {
				s.work(seq)
			}
			if err != nil || !pieced || st.complete(d, seq) {
				if err == nil {
					err = s.result(d, seq)
				}
				return true, s.finish(d, seq, err, true)
			}
		}
		if caller && s.poll(d, seq) {
			continue
		}
		if err := s.failure(); err != nil && (!pieced || st.closePieces(seq)) {
			return true, s.finish(d, seq, err, true)
		}
		if again, err := s.suspend(p, d, seq, caller); !again {
			return caller, err
		}
	}
}

// suspend makes the operation wait: a caller sleeps, and a request becomes passive. It returns true
// if the operation is active again. Otherwise the collective is over, or the request waits.
func (s *Member) suspend(p *cell, d *coll.Call, seq uint64, caller bool) (again bool, err error) {
	var w *waiter
	ph := passive
	if caller {
		w, ph = newWaiter(), asleep
		e := &s.entries[seq%Width]
		e.waiter = w
		if e.filled {
			e.release()
		} else {
			e.fill(d)
		}
	}
	p.state.Store(stateOf(seq, ph)) //bug:sleep
	// A rank that read the state before the store has not ended the operation, so check again.
	if s.canContinue(d, seq) || s.failure() != nil { //bug:sleep
		if p.state.CompareAndSwap(stateOf(seq, ph), stateOf(seq, active)) {
			if caller {
				w.free()
			}
			return true, nil
		}
	}
	if !caller {
		return false, nil
	}
	w.ch.Recv()
	again, err = p.state.Load() == stateOf(seq, active), w.err
	w.free()
	return again, err
}

// canContinue reports whether a waiting operation has what it waits for.
func (s *Member) canContinue(d *coll.Call, seq uint64) bool {
	if s.st.mapped && d.Large && s.staging.exposedFor(s, seq) {
		return s.allReached()
	}
	return s.st.ready(d, s.rank, seq)
}

// result computes the result of a rank's operation and writes it to the rank's buffer. The cell is
// active or taken, and the operation is ready and checked by checkSame. A large one on the heap is
// complete.
func (s *Member) result(d *coll.Call, seq uint64) error {
	switch {
	case !d.Large:
		return coll.Flat(d, s.rank, s.st.size, view{s.st, seq})
	}
	if s.st.mapped {
		if s.st.anyUsesMessages(seq) {
			return errUseMessages
		}
		return s.combineLarge(d, seq)
	}
	if e := s.st.pieceCount(seq).err.Load(); e != nil && e.seq == seq {
		return e.err
	}
	return nil
}

// finish ends a collective at a rank: it completes the request, or wakes the caller. The calling
// goroutine has taken the cell, or is the active rank's own (self).
func (s *Member) finish(d *coll.Call, seq uint64, err error, self bool) error {
	e := &s.entries[seq%Width]
	if s.st.inPieces(d) {
		e.unpackBuffers(err)
	}
	if err != nil && err != errUseMessages {
		err = s.host.Fail(d.What, err)
	}
	req, w := e.req, e.waiter
	if e.filled {
		e.empty()
	}
	s.markFinished(seq)
	switch {
	case req != nil:
		req.Complete(err)
	case !self:
		w.err = err
		w.ch.Send(struct{}{})
	}
	return err
}

// markFinished publishes that the rank reads no other cell of a collective any more. From then on
// the rank's own cell may be filled again.
func (s *Member) markFinished(seq uint64) {
	s.entries[seq%Width].release()
	s.row.finished[seq%Width].Store(seq)
	if s.st.queuedAll.Load() == 0 { //bug:queued-finish
		return
	}
	s.st.drain()
	for r := range s.st.rows {
		if s.st.mapped && r != s.rank && s.st.rows[r].Load().queued.Load() != 0 {
			s.host.Nudge(r)
		}
	}
}

// drainOne starts the oldest queued operation of the rank if it needs no cell, or if its cell is
// free.
func (s *Member) drainOne() bool {
	if !s.pin() {
		return false
	}
	defer s.unpin()
	mu := &s.hist.Mu
	mu.Lock()
	seq := s.next + 1
	if len(s.queue) == 0 || s.queue[0].req != nil && !s.queue[0].messages && !s.cellFree(seq) {
		mu.Unlock()
		return false
	}
	one := s.queue[0]
	s.queue[0] = queuedOp{}
	s.queue = s.queue[1:]
	switch {
	case one.req == nil:
		s.hist.Note(one.d.Kind)
	case one.messages:
		s.number(&one.d)
	default:
		s.publish(&one.d, seq, one.req)
	}
	mu.Unlock()
	s.compareHistory()
	s.dequeued(1)
	switch {
	case one.req == nil:
	case one.messages:
		one.req.UseMessages(&one.d)
	case s.st.mapped: // after a disagreement proceed waits for an answer, and so for progress
		s.pins.Add(1)
		xatomic.Go(func() {
			defer s.unpin()
			s.proceed(&one.d, seq, one.req)
		})
	default:
		s.proceed(&one.d, seq, one.req)
	}
	return true
}

// progress ends the waiting operations of the rank that have what they need. After a failure it
// ends all, except those of which other ranks have taken pieces: these ranks complete them.
func (s *Member) progress() {
	if !s.pin() {
		return
	}
	defer s.unpin()
	if s.hasFailed.Load() {
		var ended []queuedOp
		s.hist.Mu.Lock()
		if s.host.Failure() != nil {
			ended, s.queue = s.queue, nil
		}
		s.hist.Mu.Unlock()
		s.dequeued(len(ended))
		for _, one := range ended {
			if one.req != nil {
				one.req.Complete(s.host.Fail(one.d.What, s.host.Failure()))
			}
		}
	}
	if s.st.mapped {
		s.st.drain()
	}
	s.examineAll()
}

func (s *Member) examineAll() {
	for i := range Width {
		p := &s.row.cells[i]
		s.examine(p, p.state.Load()>>phaseBits)
	}
}

// examine ends the waiting operation of a cell if it has what it needs, or if its rank has failed.
// examine is called by goroutines that are active in no collective, so it takes the cell before it
// reads anything else.
func (s *Member) examine(p *cell, seq uint64) {
	st := s.st
	for {
		was, ok := p.isWaiting(seq)
		if !ok || !p.state.CompareAndSwap(was, stateOf(seq, taken)) {
			return
		}
		e := &s.entries[seq%Width]
		e.acquire()
		d, err := e.Call, s.failure()
		if d.Large && st.mapped { // the caller does the work
			if s.canContinue(&d, seq) || err != nil {
				p.state.Store(stateOf(seq, active))
				e.waiter.ch.Send(struct{}{})
				return
			}
			p.state.Store(was)                                 //bug:give-back-large
			if !s.canContinue(&d, seq) && s.failure() == nil { //bug:give-back-large
				return
			}
			continue
		}
		all := d.Large && st.firstMissing(seq, 0) == st.size
		switch {
		case err != nil && (!d.Large || st.closePieces(seq)):
			s.finish(&d, seq, err, false)
			return
		case !d.Large && st.ready(&d, s.rank, seq), all && st.complete(&d, seq), all && s.st.hasDisagreement(p, seq):
			s.finishFor(p, seq)
			return
		}
		// Give the cell back and check again: a rank that could have ended the operation meanwhile
		// has found the cell taken.
		p.state.Store(was)                    //bug:give-back
		if err == nil && s.failure() != nil { //bug:give-back
			continue
		}
		if d.Large && (all || st.firstMissing(seq, 0) < st.size) && !st.complete(&d, seq) || !d.Large && !st.ready(&d, s.rank, seq) { //bug:give-back
			return
		}
	}
}
