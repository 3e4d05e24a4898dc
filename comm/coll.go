// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
)

// messageCall is a collective under way at one rank that is made of messages: a schedule that needs
// no goroutine.
//
// Collectives of a communicator are matched by their number: their messages travel in a context of
// their own, with the number as tag.
type messageCall struct {
	Request
	schedule coll.Schedule

	// Constant after construction.
	c    *Comm
	what coll.Collective
	tag  int
	cb   func(error)

	// Of the current step; owned by the schedule.
	recvs []*reusedRecv
	sends []*sendOp
}

// byMessages starts a collective that is made of messages. If recorded, the caller has put it into
// the trace recording, if there is one. byMessages takes a copy of d, so that callers that do not
// come here keep theirs on the stack.
func (c *Comm) byMessages(d coll.Call, recorded bool) *Request {
	if d.Seq == 0 && !c.number(&d) {
		if x := c.newMemoryCall(&d); !c.member.Turn(&d, x) {
			return &x.Request
		}
	}
	x := &messageCall{c: c, what: d.What, tag: int(d.Seq & TagUB)}
	x.calls, x.engine = c.proc.calls, c.proc.engine
	x.owner = x // names the request
	x.cb = x.schedule.Ended
	if ev := c.proc.ev; ev != nil && !recorded {
		x.setTraceID(ev)
		c.recordCollective(ev, x.id, x.what)
	}
	x.schedule.Start(x, c.rank, c.size, c.world.cfg.chosen.Algorithm(d.Kind, d.Unit, c.size), &d)
	return &x.Request
}

// number numbers a collective that is made of messages. It returns false if earlier collectives of
// this rank still wait for a slot in shared memory; d must then wait its turn.
func (c *Comm) number(d *coll.Call) bool {
	if c.member != nil {
		return c.member.Turn(d, nil)
	}
	c.hist.Mu.Lock()
	defer c.hist.compareIfBehind()
	defer c.hist.Mu.Unlock()
	c.hist.Record(d, d.Elem())
	c.collSeq++
	d.Seq = c.collSeq
	return true
}

// Next runs before each step.
func (x *messageCall) Next() error {
	x.recycle()
	return x.c.barredHere()
}

// Failed asks a rank that does not agree for its calls at once: this step may wait for other
// messages that never come.
func (x *messageCall) Failed(err error) {
	if of, ok := errors.AsType[*Error](err); ok && errors.Is(err, errDisagrees) {
		x.c.ask(of.Peer, true, false)
	}
}

// recycle puts the operations of the finished step back into their pools.
func (x *messageCall) recycle() {
	for _, op := range x.recvs {
		op.release()
	}
	for _, op := range x.sends {
		op.release()
	}
	x.recvs, x.sends = x.recvs[:0], x.sends[:0]
}

// Over ends the collective.
func (x *messageCall) Over(err error) {
	x.recycle()
	x.recvs, x.sends = nil, nil // the program may keep the request
	if err == nil {
		x.complete(Status{}, nil)
		return
	}
	c := x.c
	if of, ok := errors.AsType[*Error](err); ok && errors.Is(err, errDisagrees) {
		c.onExplanation(of.Err, func(err error) { x.complete(Status{}, c.failColl(x.what, err)) })
		return
	}
	err = c.failColl(x.what, err)
	x.complete(Status{}, err)
	c.operatorFailed(err)
}

// Send starts the transfer of buf to a rank, in this step.
func (x *messageCall) Send(dst int, buf mem.Buffer) {
	c := x.c
	var h wire.Header
	fill(&h, c, &buf, x.tag)
	h.Ctx, h.Aux, h.Proto = c.ctx+1, uint64(x.what), c.protocolOf(h.Length, false)
	if h.Proto == wire.Eager && !buf.Strided() {
		if _, err := c.transmit("send", &h, buf.Memory(h.Length), nil, dst); err != nil {
			x.schedule.Fail(err)
		}
		return
	}
	op := sendOps.Get().(*sendOp)
	op.init(c, "send", aSchedule, &buf, dst, x.tag)
	op.self.Func = x.cb
	x.sends = append(x.sends, op)
	x.schedule.Begins()
	received, err := c.transmit("send", &h, nil, op, dst)
	if received || err != nil || h.Proto == wire.Eager {
		x.schedule.Ended(err)
	}
}

// Recv starts the transfer of exactly buf's size from a rank, in this step.
func (x *messageCall) Recv(src int, buf mem.Buffer) {
	c := x.c
	op := newRecv()
	op.init(c, callRecv, aSchedule, c.ctx+1, &buf, src, x.tag)
	op.expect = uint64(x.what)
	op.self.Func = x.cb
	x.recvs = append(x.recvs, op)
	x.schedule.Begins()
	if c.proc.post(&op.recvOp) {
		x.schedule.Ended(op.err)
	}
}

// operatorFailed ends the run if err is an operator's panic at this rank, as if the rank's body had
// panicked: other ranks wait for messages that will not come, and the body may ignore the error of
// the collective. The caller holds no lock.
func (c *Comm) operatorFailed(err error) {
	if op, ok := errors.AsType[*operatorError](err); ok {
		c.world.failed(c.proc.rank, &RankError{Rank: c.proc.rank, Err: op.panic})
	}
}
