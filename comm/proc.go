// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"sync"

	"weft/comm/internal/coll"
	"weft/comm/internal/count"
	"weft/comm/internal/match"
	"weft/comm/internal/mem"
	"weft/comm/internal/smcoll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
	"weft/internal/progress"
)

// newProc returns a rank of the run. ranks is how many this process has.
func newProc(w *world, ep fabric.Endpoint, ranks int) *proc {
	p := &proc{world: w, rank: ep.Rank(), ep: ep, calls: w.calls, counts: count.NewRank(w.cfg.stats)}
	p.own = newReusedRecv()
	p.own.owned, p.own.call, p.own.waiter, p.own.calls = true, callRecv, blockedCall, p.calls
	if p.engine = progress.New(ep.Sources(), w.pace(ranks)); p.engine.Polls() {
		anyEngine.Store(p.engine)
	}
	p.mapped.indices, p.mapped.staging = smcoll.NewIndices(), new(smcoll.Staging)
	p.direct.init(p, w.size)
	ep.Bind(p, p.engine)
	return p
}

// enter announces that the caller is about to wait for messages. It reports whether the caller now
// has the right to poll.
func (p *proc) enter() bool { return p.engine.Enter() }

// leave gives that right up, if the caller still has it.
func (p *proc) leave(entered *bool) {
	if *entered {
		p.engine.Leave()
	}
}

// await waits for the token in ch, which ends a blocking call.
func (p *proc) await(ch <-chan struct{}) {
	p.engine.PollChannel(ch, false)
	<-ch
}

// side returns s if a blocked call waits for the operation.
func (w waiterKind) side(s blockedSide) blockedSide {
	if w == blockedCall {
		return s
	}
	return neither
}

func (c recvCall) String() string { return [...]string{"irecv", "recv", "sendrecv", "probe"}[c] }

// newRecvRequest returns a zero receive for a request.
func (p *proc) newRecvRequest() *recvOp {
	for {
		s := p.slab.Load()
		if s != nil {
			if n := s.taken.Add(1); n <= slabSize {
				return &s.ops[n-1]
			}
		}
		fresh := new(recvSlab)
		fresh.taken.Store(1)
		if p.slab.CompareAndSwap(s, fresh) {
			return &fresh.ops[0]
		}
	}
}

var (
	recvOps  = sync.Pool{New: func() any { return newReusedRecv() }}
	sendOps  = sync.Pool{New: func() any { return &sendOp{self: node{Ch: make(chan struct{}, 1)}} }}
	messages = sync.Pool{New: func() any { return new(message) }}
)

// done ends a receive, whose result is in st and err. The caller has taken it out of the matcher,
// and so it alone may and must end it. done does not touch op once the waiter can see the end.
func (op *recvOp) done() {
	switch op.waiter {
	case blockedCall:
		op.reused().wake()
	case aSchedule:
		op.calls.Run(&op.reused().self, op.err)
	default:
		op.buf = mem.Buffer{} // do not keep the memory alive as long as the request
		op.completeOwned()
	}
}

// wake wakes the blocked caller. If both share a copy, wake returns when the copy is done.
func (op *reusedRecv) wake() {
	if j := op.job; j != nil {
		j.Run()
		return
	}
	op.self.Ch <- struct{}{}
}

// done ends a send, as recvOp.done does a receive.
func (op *sendOp) done(err error) {
	op.err = err
	switch op.waiter {
	case blockedCall:
		op.self.Ch <- struct{}{}
	case aSchedule:
		op.calls.Run(&op.self, err)
	default:
		op.completeOwned()
	}
}

// ctx returns the context of the message.
func (op *sendOp) ctx() uint64 {
	if op.waiter == aSchedule {
		return op.c.ctx + 1
	}
	return op.c.ctx
}

func newReusedRecv() *reusedRecv { return &reusedRecv{self: node{Ch: make(chan struct{}, 1)}} }

// newRecv returns a pooled operation.
func newRecv() *reusedRecv { return recvOps.Get().(*reusedRecv) }

// release returns a completed operation, which no other goroutine can reach, to its pool, or makes
// it available as proc.own. init overwrites its old contents.
func (op *reusedRecv) release() {
	if op.owned {
		op.freed.Store(op.taken)
		return
	}
	recvOps.Put(op)
}

func (op *sendOp) release() { sendOps.Put(op) }

// init fills a fresh or released operation.
func (op *recvOp) init(c *Comm, call recvCall, w waiterKind, ctx uint64, buf *mem.Buffer, src, tag int) {
	op.c, op.call, op.waiter, op.calls, op.engine = c, call, w, c.proc.calls, c.proc.engine
	op.buf = *buf
	op.expect = 0
	op.entry.IsScan = call == callProbe
	op.entry.Key.Ctx, op.entry.Key.Src, op.entry.Key.Tag = ctx, int32(src), int32(tag)
}

func (op *sendOp) init(c *Comm, name string, w waiterKind, buf *mem.Buffer, dst, tag int) {
	op.c, op.op, op.waiter, op.calls, op.engine = c, name, w, c.proc.calls, c.proc.engine
	op.buf = *buf
	op.dst, op.tag, op.err = dst, tag, nil
}

func (op *recvOp) fail(err error) error {
	return &Error{Op: op.call.String(), Rank: op.c.rank, Peer: int(op.entry.Key.Src), Tag: int(op.entry.Key.Tag), Err: err}
}

func (op *sendOp) fail(err error) error {
	return &Error{Op: op.op, Rank: op.c.rank, Peer: op.dst, Tag: op.tag, Err: err}
}

// arrive takes a message, on the sender's goroutine if that is in this process. The payload is in
// data or, if from is not nil, in the sender's own memory. It returns true if the message is
// received and the sender's memory is free: then the caller ends from. It returns false if it has
// queued or refused the message. The memory of an eager message is free then too; from, of a
// rendezvous message, ends by itself when it is received.
func (p *proc) arrive(h *wire.Header, data []byte, from *sendOp) bool {
	key := h.Key()
	p.mu.Lock()
	if t := p.failure.Load(); t != nil {
		if err := p.refuses(t, h, from); err != nil {
			p.mu.Unlock()
			refuse(h, from, err)
			return false
		}
	}
	if e := p.m.Take(key); e != nil {
		p.mu.Unlock()
		op := opOf(e)
		op.transfer(h, data, from, op.waiter.side(receiver))
		if op.waiter == blockedCall {
			op.reused().wake()
		} else {
			op.done()
		}
		return true
	}
	var blk *mem.Block
	if h.Proto == wire.Eager && h.Length > smallLen {
		// The copy is made outside the lock, so the matcher must be checked again. Messages of one
		// goroutine keep their order: its next message comes after this call.
		p.mu.Unlock()
		blk = mem.NewBlock(int(h.Length))
		copyEager(blk.B, data, from)
		p.mu.Lock()
		if t := p.failure.Load(); t != nil && p.refuses(t, h, from) != nil {
			p.mu.Unlock()
			blk.Free()
			return false
		}
		if e := p.m.Take(key); e != nil {
			p.mu.Unlock()
			op := opOf(e)
			op.transfer(h, blk.B, nil, neither)
			blk.Free()
			op.done()
			return true
		}
	}
	msg := messages.Get().(*message)
	msg.h, msg.data, msg.entry.Key = *h, blk, key
	switch {
	case h.Proto == wire.RTS:
		msg.from = from
	case blk == nil:
		copyEager(msg.small[:h.Length], data, from)
	}
	p.file(h, msg)
	return false
}

// copyEager copies the payload of an eager message, which is in data or, if from is not nil, in its
// buffer.
func copyEager(dst, data []byte, from *sendOp) {
	if from != nil {
		from.buf.CopyToBytes(dst, 0)
	} else {
		copy(dst, data)
	}
}

// file queues a message that no receive has matched. The caller holds mu; file releases it.
func (p *proc) file(h *wire.Header, msg *message) {
	woken := p.m.Add(&msg.entry)
	p.probe.Filed()
	p.mu.Unlock()
	for woken != nil {
		e := woken
		woken, e.Next = e.Next, nil
		op := opOf(e)
		op.st, op.err = statusOf(h), nil
		op.done()
	}
}

// refuse ends a send whose message the receiver does not take.
func refuse(h *wire.Header, from *sendOp, err error) {
	if from != nil && h.Proto == wire.RTS {
		from.refused(err)
	}
}

// post starts a receive. It returns true if a message is here, or a failure prevents the receive:
// op has its result then, was not queued, and the caller ends it. Otherwise op is queued, or its
// payload is under way.
func (p *proc) post(op *recvOp) bool {
	p.mu.Lock()
	if t := p.failure.Load(); t != nil {
		if err := p.barred(t, op); err != nil {
			p.mu.Unlock()
			op.st, op.err = Status{}, op.fail(err)
			return true
		}
	}
	a := p.m.Post(&op.entry)
	if a == nil {
		p.mu.Unlock()
		return false
	}
	return p.consume(op, a)
}

// recv posts a blocking receive and waits for it. It repeats code of post and wait: each call less
// on the stack of a parked goroutine is a mispredicted return less when the goroutine goes on.
func (p *proc) recv(c *Comm, buf *mem.Buffer, src, tag int) (Status, error) {
	var s directResult
	if p.direct.polled != nil && !p.probe.Taken() {
		if s = p.direct.receive(c, buf, src, tag); s.received {
			return s.st, s.err
		}
	}
	p.mu.Lock()
	op := p.own
	if op.freed.Load() == op.taken { // newProc has set its other fields
		op.taken++
		op.c, op.buf = c, *buf
		op.entry.Key.Ctx, op.entry.Key.Src, op.entry.Key.Tag = c.ctx, int32(src), int32(tag)
	} else {
		op = newRecv()
		op.init(c, callRecv, blockedCall, c.ctx, buf, src, tag)
	}
	if err := p.barredNow(&op.recvOp); err != nil {
		p.mu.Unlock()
		op.st, op.err = Status{}, op.fail(err)
	} else if a := p.m.Post(&op.entry); a == nil {
		p.mu.Unlock()
		s.await(p, op.self.Ch)
		op.job = op.job.Help()
	} else if !p.consume(&op.recvOp, a) {
		s.await(p, op.self.Ch)
	}
	st, err := op.st, op.err
	op.buf.Forget() // do not keep the memory alive until the next receive
	op.release()
	p.leave(&s.polling)
	return st, err
}

// consume ends a receive or probe that has found a message. The caller holds mu; consume releases
// it. It returns false if the payload is still to come: op ends by itself then.
func (p *proc) consume(op *recvOp, a *match.Arrival) bool {
	msg := messageOf(a)
	if op.entry.IsScan {
		op.st, op.err = statusOf(&msg.h), nil
		p.mu.Unlock()
		return true
	}
	p.m.Remove(a)
	p.mu.Unlock()
	ended := true
	switch {
	case msg.remote != 0:
		ended = op.sendCTS(p, &msg.h, msg.remote-1, msg.id)
	case msg.from != nil:
		op.transfer(&msg.h, nil, msg.from, msg.from.waiter.side(sender))
		if j := msg.from.job; j != nil {
			msg.from.err = nil
			j.Run()
		} else {
			msg.from.done(nil)
		}
	case msg.data != nil:
		op.transfer(&msg.h, msg.data.B, nil, neither)
		msg.data.Free()
	default:
		op.transfer(&msg.h, msg.small[:msg.h.Length], nil, neither)
	}
	msg.data, msg.from, msg.remote = nil, nil, 0
	messages.Put(msg)
	return ended
}

// transfer moves a matched message into the receive's memory, outside all locks, on the goroutine
// that came second, and sets the receive's result. side tells which of the two callers is blocked.
// A large copy may be left as a job that both sides share; see mem.Cocopy.
func (op *recvOp) transfer(h *wire.Header, data []byte, from *sendOp, side blockedSide) {
	op.st.Source, op.st.Tag, op.st.Bytes = int(h.Src), int(h.Tag), int(h.Length)
	op.st.Cancelled = false
	op.err = nil
	if n := op.c.counter; n != nil {
		n.Receive(int(h.Src), h.Length)
	}
	if ev := op.c.proc.ev; ev != nil {
		op.recordMatch(ev, h)
	}
	if from == nil && op.expect == h.Aux && op.buf.Take(h.Elem, int(h.ElemSize), h.Aux != 0, data) {
		return
	}
	if op.expect != h.Aux || op.expect != 0 || !mem.Fits(op.buf.Kind(), h.Elem, op.buf.ElemSize(), int(h.ElemSize)) {
		if err := op.check(h); err != nil {
			op.err = op.fail(err)
			return
		}
	}
	var n int
	if from != nil {
		n = op.share(from, side)
		if n == 0 {
			n = mem.Copy(op.buf, from.buf)
		}
	} else {
		n = op.buf.CopyFromBytes(data, 0)
	}
	if n < int(h.Length) {
		op.err = op.fail(fmt.Errorf("%w: %d bytes into %d", ErrTruncated, h.Length, op.buf.Bytes()))
	}
}

// share leaves a large copy, if one side is blocked, to be made when that side is woken. It returns
// the size of the copy, or 0.
func (op *recvOp) share(from *sendOp, side blockedSide) int {
	dst, src, ok := mem.Shareable(&op.buf, &from.buf)
	switch {
	case !ok || side == neither:
		return 0
	case side == receiver:
		r := op.reused()
		r.job = mem.NewCocopy(dst, src, r.self.Ch)
	default:
		from.job = mem.NewCocopy(dst, src, from.self.Ch)
	}
	return len(dst)
}

// check returns why a message must not be copied into the receive's memory, or nil.
func (op *recvOp) check(h *wire.Header) error {
	if op.expect != 0 {
		return op.checkColl(h)
	}
	if h.Length > 0 && !mem.Fits(op.buf.Kind(), h.Elem, op.buf.ElemSize(), int(h.ElemSize)) {
		return mem.Mismatch(op.buf.Kind(), h.Elem, op.buf.ElemSize(), int(h.ElemSize))
	}
	return nil
}

// checkColl is check for messages of collectives, and for others where a collective's is expected.
func (op *recvOp) checkColl(h *wire.Header) error {
	switch {
	case op.expect != h.Aux && !coll.Collective(op.expect).Fits(coll.Collective(h.Aux)):
		return mismatch(op.expect, h)
	case int(h.Length) != op.buf.Bytes():
		return fmt.Errorf("%w: rank %d sends %d bytes where this rank expects %d", errDisagrees, h.Src, h.Length, op.buf.Bytes())
	case h.Length > 0 && !mem.Fits(op.buf.Kind(), h.Elem, op.buf.ElemSize(), int(h.ElemSize)):
		return fmt.Errorf("%w: %w", errDisagrees, mem.Mismatch(op.buf.Kind(), h.Elem, op.buf.ElemSize(), int(h.ElemSize)))
	}
	return nil
}

// cancel withdraws the receive if it is still queued.
func (op *recvOp) cancel() bool {
	p := op.c.proc
	p.mu.Lock()
	ok := p.m.Unpost(&op.entry)
	p.mu.Unlock()
	if ok {
		op.st, op.err = Status{Cancelled: true}, op.fail(ErrCancelled)
		op.done()
	}
	return ok
}

// kill ends all operations that are queued at this rank with err, and refuses all later ones. It
// returns false if the rank had ended before. The caller then ends the shared-memory collectives,
// as after change.
func (p *proc) kill(err error) bool {
	p.world.anyFailure.Store(true)
	p.mu.Lock()
	t := p.failure.Load()
	if t != nil && t.dead != nil {
		p.mu.Unlock()
		return false
	}
	t = t.clone()
	t.dead = err
	p.failure.Store(t)
	ps, as := p.m.Drain()
	p.mu.Unlock()
	p.remote.kill(p, err)
	p.agreements.Kill(err)
	if a := p.answers.Load(); a != nil {
		a.Done(nil)
	}
	p.end(ps, as, err, p.sent(err))
	return true
}
