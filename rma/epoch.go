// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"context"
	"errors"
	"fmt"

	"weft/comm"
	"weft/internal/event"
)

// Assert is a set of promises about the epochs before and after a fence.
type Assert uint

// The assertions of a fence. NoStore, NoPut and NoPrecede are accepted as hints and change nothing.
// NoSucceed is kept to: after such a fence, operations return ErrSync until the next one.
const (
	// this rank has not stored to its region itself since the last fence
	NoStore    Assert = 1 << iota
	NoPut             // no rank will put into this rank's region until the next fence
	NoPrecede         // the fence completes no operation of this rank
	NoSucceed         // no operation follows the fence
	allAsserts = NoStore | NoPut | NoPrecede | NoSucceed
)

// The state word of a window: one atomic word with all that an operation must know before it may
// touch memory.
//
//	bits 0..31  direct operations in progress
//	bit 61      busy: a fence is outstanding, so operations are queued
//	bit 62      open: operations are legal (the last fence called opened an epoch)
//	bit 63      freed
//
// The three bits change only while mu is held; the count changes at any time.
const (
	stBusy  uint64 = 1 << 61
	stOpen  uint64 = 1 << 62
	stFreed uint64 = 1 << 63
	stCount uint64 = 1<<32 - 1
)

// Fence closes the epoch and opens the next: it returns when all operations that any rank issued
// before its own call of this fence are complete at their targets. Collective. Errors: those of
// queued operations of this rank, of the backing, of the communicator, or comm.ErrMismatch if
// another rank calls Free (the window is then lost).
func (w *Win) Fence(assert Assert) error {
	_, err := w.Ifence(assert).Wait(context.Background())
	return err
}

// Ifence is Fence as a request. Fences of one window are carried out in the order of the calls,
// which must be the same on all ranks; fences of different windows are independent. Operations
// issued after Ifence belong to the next epoch: while the fence is outstanding they are queued, and
// carried out in order when the fence is complete. Their buffers must not change until the fence
// after them completes; that fence also returns their errors.
func (w *Win) Ifence(assert Assert) *comm.Request {
	if assert&^allAsserts != 0 {
		return w.failed("fence", fmt.Errorf("%w: bits %#x; legal are NoStore, NoPut, NoPrecede, NoSucceed (%#x)",
			ErrAssert, uint(assert&^allAsserts), uint(allAsserts)))
	}
	req := w.enqueueFence(assert&NoSucceed == 0, false, w.ev)
	if req == nil {
		return w.failed("fence", w.freedCause())
	}
	return req
}

// freedCause returns why the window accepts no more calls. After the end of a run, that is the
// error that ended the run, and not that its windows are freed.
func (w *Win) freedCause() error {
	if w.abandoned.Load() {
		return abandonedError{context.Cause(w.c.Context())}
	}
	return ErrFreed
}

func (w *Win) failed(op string, err error) *comm.Request {
	req, complete := comm.NewRequest()
	complete(w.wrap(op, NoPeer, err))
	return req
}

// enqueueFence queues a fence, and starts it if no fence is outstanding. It returns nil if the
// window has been freed. ev receives the trace events of the fence; nil if there are none.
func (w *Win) enqueueFence(opens, final bool, ev *event.Shared) *comm.Request {
	req, complete := comm.NewRequestFor((*fenceOf)(w))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Load()&stFreed != 0 {
		return nil
	}
	set, clear := stBusy, uint64(0)
	if opens {
		set |= stOpen
	} else {
		clear |= stOpen
	}
	if final {
		set |= stFreed
	}
	w.state.And(^clear)
	w.state.Or(set) // from here on, operations queue after this fence //bug:busy
	w.called++
	w.countFence(final)
	if !w.separate {
		w.c.Later(1) // announces the barrier; flushed withdraws it
	}
	e := entry{kind: kindFence, complete: complete, final: final}
	if ev != nil {
		w.recordFence(&e, req, opens)
	}
	w.queue = append(w.queue, e)
	if w.phase == idle {
		w.move()
	}
	return req
}

// enter begins a direct operation. It returns false if the operation has to take the slow path. The
// same atomic addition raises the count and reads the bits. So a fence that sets busy finds this
// operation in the count, or this operation finds busy set.
func (w *Win) enter() bool {
	s := w.state.Add(1)                      //bug:announce
	if s&(stFreed|stOpen|stBusy) == stOpen { //bug:announce
		return true
	}
	w.leave()
	return false
}

// leave ends what enter began. If it takes the count to zero and a fence waits for that, it starts
// the fence.
func (w *Win) leave() {
	s := w.state.Add(^uint64(0))
	if s&stBusy == 0 || s&stCount != 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == waitingOps && w.state.Load()&stCount == 0 { //bug:phase
		w.sync()
	}
}

// issue carries an operation out now, or queues it after an outstanding fence.
func (w *Win) issue(e entry) error {
	for {
		if w.enter() {
			return w.direct(&e)
		}
		w.mu.Lock()
		s := w.state.Load() //bug:queue
		switch {
		case s&stFreed != 0:
			w.mu.Unlock()
			return w.wrap(e.kind.String(), e.rank, w.freedCause())
		case s&stOpen == 0:
			w.mu.Unlock()
			return w.wrap(e.kind.String(), e.rank, fmt.Errorf("%w: call Fence or Ifence first", ErrSync))
		case s&stBusy != 0:
			if w.ev != nil {
				w.recordOp(&e, w.called+1)
			}
			w.queue = append(w.queue, e)
			w.mu.Unlock()
			return nil
		}
		w.mu.Unlock() // the fence completed meanwhile: try again
	}
}

// direct carries an operation out now. Precondition: enter has returned true.
func (w *Win) direct(e *entry) error {
	defer w.leave() // also if the backing panics: else the end of the run would wait for ever
	if w.ev != nil {
		w.recordOp(e, w.completed+1)
	}
	err := w.perform(e)
	if w.ev != nil {
		w.recordDone(e, err)
	}
	return err
}

// move takes entries off the queue until the queue is empty or a fence has to wait. phase ensures
// that one goroutine at a time is in move. Preconditions: mu is held, and phase is idle or moving.
// move unlocks mu while it carries out operations.
func (w *Win) move() {
	w.phase = moving
	for len(w.queue) > 0 {
		e := w.queue[0]
		w.queue[0] = entry{} // releases the buffer
		w.queue = w.queue[1:]
		if e.kind == kindFence {
			w.fence = e
			w.phase = waitingOps //bug:fence
			if w.state.Load()&stCount == 0 {
				w.sync()
			}
			return //bug:fence
		}
		w.mu.Unlock()
		err := w.perform(&e)
		if w.ev != nil {
			w.recordDone(&e, err)
		}
		w.mu.Lock()
		w.opErr = errors.Join(w.opErr, err)
	}
	w.queue = nil        //bug:not-busy
	w.state.And(^stBusy) //bug:not-busy
	w.phase = idle
}

// sync runs the current fence: flush, barrier, close. Preconditions: mu is held, phase is
// waitingOps, no direct operation is in progress. sync unlocks mu while it calls the backing.
func (w *Win) sync() {
	w.phase = syncing
	final := w.fence.final
	w.mu.Unlock()
	if m, ok := w.b.(*memory); ok && final && m.ep != nil {
		m.ep.announceFree()
	}
	w.b.Flush(w.onFlush)
	w.mu.Lock()
}

// flushed follows the flush: this rank's operations of the epoch are done. The fence joins the
// barrier even after an error, because the other ranks wait for the barrier.
func (w *Win) flushed(err error) {
	if w.separate {
		w.passed(err) // the marks of all ranks have been the barrier
		return
	}
	w.syncErr = err
	what := comm.ForFence
	if w.fence.final {
		what = comm.ForFree
	}
	barrier := w.c.IbarrierFor(what)
	w.c.Later(-1)
	barrier.OnDone(w.onBarrier)
}

// passed follows the barrier: all ranks' operations of the epoch are done.
func (w *Win) passed(err error) {
	w.syncErr = errors.Join(w.syncErr, cause(err))
	if err != nil || w.fence.final {
		w.closed(nil)
		return
	}
	w.b.Closed(w.onClosed)
}

// closed completes the current fence and goes on with the queue.
func (w *Win) closed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fence
	err = errors.Join(w.syncErr, err, w.opErr) //bug:error
	if err != nil {
		op := "fence"
		if f.final {
			op = "free"
		}
		err = w.wrap(op, NoPeer, err)
		w.stopCounting(err)
	}
	w.fence, w.syncErr, w.opErr = entry{}, nil, nil
	w.completed++
	if f.recorded != nil {
		w.ev.Put(event.EpochClosed, f.recorded.TraceID(), uint64(w.number), w.completed)
	}
	w.phase = moving       //bug:drain
	if len(w.queue) == 0 { //bug:drain
		// A callback or waiter of the fence may put at once. Its put should not be queued for this
		// goroutine.
		w.state.And(^stBusy)
	}
	w.mu.Unlock()
	f.complete(err) // before the next epoch's operations, which may be many
	w.mu.Lock()
	w.move()
}

// Put copies src to the target's region, from displacement disp (in the target's units) on. The
// target sees the data after the next fence. The copy may be made later, if the target is in
// another process or a fence is outstanding; src must not change until the next fence is complete.
// Errors: ErrRank, ErrRange, ErrSync, ErrFreed, those of the buffer.
func (w *Win) Put(src comm.Buffer, rank, disp int) error {
	return w.access(entry{kind: kindPut, buf: src, rank: rank}, disp)
}

// Get copies from the target's region to dst. dst is filled when the next fence is complete; the
// region should not be written to in the same epoch. Errors as for Put.
func (w *Win) Get(dst comm.Buffer, rank, disp int) error {
	return w.access(entry{kind: kindGet, buf: dst, rank: rank}, disp)
}

// Accumulate combines src with the target's region, element by element: target = target op src. It
// is atomic per element with respect to other Accumulates, and those of one rank to one element
// happen in the order of the calls. Operators: Sum, Prod, Min, Max and [Replace]. Errors as for
// Put, and ErrOp.
func (w *Win) Accumulate(src comm.Buffer, rank, disp int, op comm.Op) error {
	if err := checkOp(op, src.Kind()); err != nil {
		return w.wrap("accumulate", rank, err)
	}
	return w.access(entry{kind: kindAccumulate, buf: src, rank: rank, op: op}, disp)
}

// access checks an operation, and then issues it. A refused operation has had no effect.
func (w *Win) access(e entry, disp int) error {
	if e.rank == comm.ProcNull {
		return nil
	}
	if err := e.buf.Err(); err != nil {
		return w.wrap(e.kind.String(), e.rank, err)
	}
	if uint(e.rank) >= uint(len(w.regions)) {
		return w.wrap(e.kind.String(), e.rank, fmt.Errorf("%w: legal are 0 to %d", ErrRank, len(w.regions)-1))
	}
	g := &w.regions[e.rank]
	n := e.buf.Bytes()
	// In this order nothing overflows.
	if disp < 0 || disp > g.Size/g.Unit || n > g.Size-disp*g.Unit {
		return w.wrap(e.kind.String(), e.rank, fmt.Errorf("%w: %d bytes at displacement %d (unit %d) of a region of %d bytes",
			ErrRange, n, disp, g.Unit, g.Size))
	}
	e.off = disp * g.Unit
	return w.issue(e)
}

// perform carries out a checked operation.
func (w *Win) perform(e *entry) error {
	if e.buf.Bytes() == 0 {
		return nil
	}
	var err error
	switch e.kind {
	case kindPut:
		err = w.b.Put(e.rank, e.off, e.buf)
	case kindGet:
		err = w.b.Get(e.rank, e.off, e.buf)
	case kindAccumulate:
		err = w.b.Accumulate(e.rank, e.off, e.buf, e.op)
	}
	if err != nil {
		return w.wrap(e.kind.String(), e.rank, err)
	}
	return nil
}
