// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/coll"
	"weft/comm/internal/match"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// Send sends buf to rank dst. It returns when the memory may be used again: at once if the message
// is small or its receive is posted, otherwise when it is received.
//
// Errors: ErrType, ErrBuffer, ErrRank, ErrTag (nothing was sent), ErrAborted.
func (c *Comm) Send(buf Buffer, dst, tag int) error { return c.send("send", buf.b, dst, tag, false) }

// Ssend is Send that returns only when the message has been received.
func (c *Comm) Ssend(buf Buffer, dst, tag int) error { return c.send("ssend", buf.b, dst, tag, true) }

// Isend starts a send. The memory must not be changed until the request is complete. Errors come by
// the request.
func (c *Comm) Isend(buf Buffer, dst, tag int) *Request {
	return c.isend("isend", buf.b, dst, tag, false)
}

// Issend is Isend whose request completes only when the message has been received.
func (c *Comm) Issend(buf Buffer, dst, tag int) *Request {
	return c.isend("issend", buf.b, dst, tag, true)
}

// fill sets the header fields that depend on the buffer and the sender. (Field by field: a struct
// made elsewhere and copied costs as much as the rest of this function.)
func fill(h *wire.Header, c *Comm, buf *mem.Buffer, tag int) {
	h.Src, h.Tag = int32(c.rank), int32(tag)
	if t, n := buf.Payload(); t != nil {
		h.Elem, h.ElemSize, h.Length = t.Kind, uint32(t.Size), uint64(n*t.Size)
	}
}

// protocolOf chooses how a message travels.
func (c *Comm) protocolOf(bytes uint64, synchronous bool) wire.Protocol {
	if synchronous || bytes > c.eager {
		return wire.RTS
	}
	return wire.Eager
}

func (c *Comm) send(name string, buf mem.Buffer, dst, tag int, synchronous bool) error {
	if !c.plain(&buf, dst, tag) {
		if err := c.check(name, &buf, dst, tag, false); err != nil || dst == ProcNull {
			return err
		}
	}
	var h wire.Header
	fill(&h, c, &buf, tag)
	h.Ctx, h.Proto = c.ctx, c.protocolOf(h.Length, synchronous)
	if h.Proto == wire.Eager && !buf.Strided() {
		received, err := c.transmit(name, &h, buf.Memory(h.Length), nil, dst)
		if !received && err == nil {
			err = c.alive(name, dst, tag)
		}
		return err
	}
	op := sendOps.Get().(*sendOp)
	op.init(c, name, blockedCall, &buf, dst, tag)
	received, err := c.transmit(name, &h, nil, op, dst)
	if err == nil && !received {
		if h.Proto == wire.RTS {
			c.proc.await(op.self.Ch)
			op.job = op.job.Help()
			err = op.err
		} else {
			err = c.alive(name, dst, tag)
		}
	}
	op.release()
	return err
}

// alive returns an error if the run or the receiver has ended, in which case the message that was
// just sent may be lost.
func (c *Comm) alive(name string, dst, tag int) error {
	if c.world.anyFailure.Load() {
		if err := c.barredNow(dst, false); err != nil {
			return c.fail(name, dst, tag, err)
		}
	}
	return nil
}

func (c *Comm) isend(name string, buf mem.Buffer, dst, tag int, synchronous bool) *Request {
	if !c.plain(&buf, dst, tag) {
		if err := c.check(name, &buf, dst, tag, false); err != nil {
			return doneRequest(Status{}, err)
		}
		if dst == ProcNull {
			return doneRequest(Status{}, nil)
		}
	}
	if c.protocolOf(uint64(buf.Bytes()), synchronous) == wire.Eager {
		return doneRequest(Status{}, c.send(name, buf, dst, tag, false))
	}
	var h wire.Header
	fill(&h, c, &buf, tag)
	h.Ctx, h.Proto = c.ctx, wire.RTS
	op := new(sendOp)
	op.init(c, name, aRequest, &buf, dst, tag)
	op.owner = op // names the request
	received, err := c.transmit(name, &h, nil, op, dst)
	if received || err != nil {
		op.done(err)
	}
	return &op.Request
}

// transmit sends a message. Every message passes here. The payload is in data or, if from is not
// nil, in its buffer. It returns true if the message is received already. In that case, and on
// error, the caller ends from.
func (c *Comm) transmit(name string, h *wire.Header, data []byte, from *sendOp, dst int) (bool, error) {
	if n := c.counter; n != nil {
		n.Send(dst, h.Length)
	}
	if ev := c.proc.ev; ev != nil {
		c.recordSend(ev, h, from, dst)
	}
	if c.world.anyFailure.Load() {
		if err := c.barredNow(dst, h.Ctx&1 != 0); err != nil {
			return false, c.fail(name, dst, int(h.Tag), err)
		}
	}
	if q := c.peers[dst]; q != nil {
		return q.arrive(h, data, from), nil
	}
	if err := c.proc.remote.transmit(c.proc, h, data, from, c.worldRank(dst)); err != nil {
		return false, c.fail(name, dst, int(h.Tag), err)
	}
	return false, nil
}

// Recv receives a message from rank src, or AnySource, with tag, or AnyTag, into buf. Messages of
// one sender that match the same receives are received in the order in which they were sent.
//
// Errors: ErrTruncated and ErrType with the status filled (the message is consumed), ErrBuffer,
// ErrRank, ErrTag, ErrAborted.
func (c *Comm) Recv(buf Buffer, src, tag int) (Status, error) {
	if !c.plain(&buf.b, src, tag) {
		if err := c.check("recv", &buf.b, src, tag, true); err != nil {
			return Status{}, err
		}
		if src == ProcNull {
			return nullStatus, nil
		}
	}
	if ev := c.proc.ev; ev != nil {
		c.recordRecv(ev, nil, &buf.b, src, tag)
	}
	return c.proc.recv(c, &buf.b, src, tag)
}

// wait ends a blocking call: at once if post has ended it, otherwise when another goroutine ends
// the operation.
func (op *reusedRecv) wait(ended bool) (Status, error) {
	if !ended {
		op.c.proc.await(op.self.Ch)
		op.job = op.job.Help()
	}
	st, err := op.st, op.err
	op.release()
	return st, err
}

// nullStatus is the status of a receive from ProcNull.
var nullStatus = Status{Source: ProcNull, Tag: AnyTag}

// Irecv starts a receive. The memory belongs to the operation until the request is complete. Errors
// come by the request.
func (c *Comm) Irecv(buf Buffer, src, tag int) *Request {
	if !c.plain(&buf.b, src, tag) {
		if err := c.check("irecv", &buf.b, src, tag, true); err != nil {
			return doneRequest(Status{}, err)
		}
		if src == ProcNull {
			return doneRequest(nullStatus, nil)
		}
	}
	op := c.proc.newRecvRequest()
	op.init(c, callIrecv, aRequest, c.ctx, &buf.b, src, tag)
	op.owner = op
	if ev := c.proc.ev; ev != nil {
		c.recordRecv(ev, op, &buf.b, src, tag)
	}
	if c.proc.post(op) {
		op.done()
	}
	return &op.Request
}

// Sendrecv sends one message and receives another, in whatever order they can go, so that ranks
// that exchange data cannot block each other. The buffers must not overlap. The status is the
// receive's.
func (c *Comm) Sendrecv(send Buffer, dst, sendTag int, recv Buffer, src, recvTag int) (Status, error) {
	if err := c.check("sendrecv", &send.b, dst, sendTag, false); err != nil {
		return Status{}, err
	}
	if err := c.check("sendrecv", &recv.b, src, recvTag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, c.send("sendrecv", send.b, dst, sendTag, false)
	}
	op := newRecv()
	op.init(c, callSendrecv, blockedCall, c.ctx, &recv.b, src, recvTag)
	op.sendingFirst.Store(true)
	ended := c.proc.post(&op.recvOp)
	sendErr := c.send("sendrecv", send.b, dst, sendTag, false)
	if sendErr != nil {
		op.cancel() // unless it has ended
	}
	op.sendingFirst.Store(false)
	st, err := op.wait(ended)
	if sendErr != nil {
		return Status{}, sendErr
	}
	return st, err
}

// Probe waits until a message from src with tag (or wildcards) could be received, and returns its
// status. It does not receive it: where several goroutines receive, another one may come first.
func (c *Comm) Probe(src, tag int) (Status, error) {
	if err := c.check("probe", &mem.Buffer{}, src, tag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, nil
	}
	op := newRecv()
	op.init(c, callProbe, blockedCall, c.ctx, &mem.Buffer{}, src, tag)
	return op.wait(c.proc.post(&op.recvOp))
}

// errDisagrees is an ErrMismatch that one rank sees before it has asked the other rank.
var errDisagrees = fmt.Errorf("%w", ErrMismatch)

// mismatch explains a message of another collective than this rank's current one.
func mismatch(expect uint64, h *wire.Header) error {
	if theirs, mine := coll.Collective(h.Aux).String(), coll.Collective(expect).String(); theirs != mine {
		return fmt.Errorf("%w: rank %d is in %s where this rank is in %s", errDisagrees, h.Src, theirs, mine)
	}
	return fmt.Errorf("%w: rank %d has made other collectives than this rank", errDisagrees, h.Src)
}

func (s *directReceiver) init(p *proc, size int) {
	s.p = p
	s.finished = func() bool { return s.received || s.mustPost || p.world.anyFailure.Load() }
	if p.engine.Polls() {
		for r := range size {
			if p.ep.Caps(r).SharedMemory && p.ep.Local(r) == nil {
				if s.polled == nil {
					s.polled = make([]bool, size)
				}
				s.polled[r] = true
			}
		}
	}
	s.op.call = callRecv
}

// receive takes a message that comes soon, without posting a receive. If it does not succeed, the
// caller posts its receive, and may have the right to poll already.
func (s *directReceiver) receive(c *Comm, buf *mem.Buffer, src, tag int) directResult {
	p := s.p
	if src < 0 || tag < 0 || !s.polled[c.worldRank(src)] || p.ev != nil || !p.engine.Take() {
		return directResult{}
	}
	// After Take: what another goroutine has delivered earlier is in the matcher, and what comes
	// from src from now on is seen here first.
	p.mu.Lock()
	free := p.m.Idle() && p.failure.Load() == nil
	p.mu.Unlock()
	if !free {
		p.engine.Leave()
		return directResult{}
	}
	s.active, s.received, s.mustPost = true, false, false
	s.ctx, s.srcTag = c.ctx, uint64(uint32(src))<<32|uint64(uint32(tag))
	s.op.c, s.op.buf = c, *buf
	s.op.entry.Key.Ctx, s.op.entry.Key.Src, s.op.entry.Key.Tag = c.ctx, int32(src), int32(tag)
	_, exhausted := p.engine.PollUntil(s.finished)
	s.active = false
	s.op.buf.Forget() // do not keep the memory alive until the next receive
	if !s.received {
		return directResult{polling: true, exhausted: exhausted}
	}
	found := directResult{st: s.op.st, err: s.op.err, received: true}
	p.engine.Leave()
	return found
}

// directResult is the outcome of directReceiver.receive.
type directResult struct {
	received bool
	st       Status
	err      error

	polling   bool // the caller still has the right to poll
	exhausted bool // the caller has spent its poll budget
}

// await is proc.await after an unsuccessful directReceiver.receive.
func (s *directResult) await(p *proc, ch <-chan struct{}) {
	if s.exhausted {
		p.engine.Leave()
	} else {
		p.engine.PollChannel(ch, s.polling)
	}
	s.polling = false
	<-ch
}

// take receives the message f, from rank src that shares memory with this one, if it is the one
// that is waited for. The caller has the right to poll.
func (s *directReceiver) take(src int, f *fabric.Frame) bool {
	if s.mustPost || f.Head[0] != s.ctx || f.Head[1] != s.srcTag {
		return false
	}
	var h wire.Header
	h.Unpack(&f.Head)
	if h.Proto != wire.Eager || h.Aux != 0 || s.p.world.anyFailure.Load() || s.p.admit(&h, src, f.Data) != nil {
		s.mustPost = true
		return false
	}
	s.op.transfer(&h, f.Data, nil, neither)
	if s.p.world.multiProcess {
		s.p.traffic.received.Add(1)
	}
	s.received = true
	return true
}

// Iprobe reports whether a message from src with tag (or wildcards) could be received now, and its
// status. If not, the call makes progress, as Request.Test does, and checks once more.
func (c *Comm) Iprobe(src, tag int) (bool, Status, error) {
	if err := c.check("iprobe", &mem.Buffer{}, src, tag, true); err != nil {
		return false, Status{}, err
	}
	if src == ProcNull {
		return true, nullStatus, nil
	}
	key := match.ProbeWord(c.ctx, src, tag)
	if !c.proc.probe.StillNothing(key) || c.world.anyFailure.Load() {
		if here, st, err := c.peek(src, tag, key); here || err != nil {
			return here, st, err
		}
	}
	if !c.proc.engine.Try() || c.proc.probe.StillNothing(key) {
		return false, Status{}, nil
	}
	return c.peek(src, tag, key)
}

// peek checks the queued messages. key is match.ProbeWord of the other arguments.
func (c *Comm) peek(src, tag int, key uint64) (bool, Status, error) {
	p := c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.m.Peek(match.Key{Ctx: c.ctx, Src: int32(src), Tag: int32(tag)})
	if a == nil {
		if err := c.barred(p.failure.Load(), src, false); err != nil {
			return false, Status{}, c.fail("iprobe", src, tag, err)
		}
		p.probe.Nothing(key)
		return false, Status{}, nil
	}
	p.probe.Found()
	return true, statusOf(&messageOf(a).h), nil
}
