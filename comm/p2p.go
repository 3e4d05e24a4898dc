// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "fmt"

// Send sends buf to rank dst. It returns when the memory may be used again: at once if the message is small or its
// receive is posted, otherwise when it is received.
//
// Errors: ErrType, ErrBuffer, ErrRank, ErrTag (nothing was sent), ErrAborted.
func (c *Comm) Send(buf Buffer, dst, tag int) error {
	return c.send("send", buf, dst, tag, false)
}

// Ssend is Send that returns only when the message has been received.
func (c *Comm) Ssend(buf Buffer, dst, tag int) error {
	return c.send("ssend", buf, dst, tag, true)
}

// Isend starts a send. The memory must not be changed until the request is complete. Errors come by the request.
func (c *Comm) Isend(buf Buffer, dst, tag int) *Request {
	return c.isend("isend", buf, dst, tag, false)
}

// Issend is Isend whose request completes only when the message has been received.
func (c *Comm) Issend(buf Buffer, dst, tag int) *Request {
	return c.isend("issend", buf, dst, tag, true)
}

// fill sets what a buffer and its sender say of a message. (Field by field: a struct made elsewhere and
// copied costs as much as the rest of this.)
func (h *header) fill(c *Comm, buf *Buffer, tag int) {
	h.src, h.tag = int32(c.rank), int32(tag)
	if t := buf.typ; t != nil {
		h.elem, h.elemSize = t.kind, uint32(t.size)
		h.length = uint64(buf.count * buf.blocklen * t.size)
	}
}

// protocolOf chooses how a message travels.
func (c *Comm) protocolOf(bytes uint64, synchronous bool) protocol {
	if synchronous || bytes > c.eager {
		return ready
	}
	return eager
}

func (c *Comm) send(name string, buf Buffer, dst, tag int, synchronous bool) error {
	if !c.plain(&buf, dst, tag) {
		if err := c.check(name, &buf, dst, tag, false); err != nil || dst == ProcNull {
			return err
		}
	}
	var h header
	h.fill(c, &buf, tag)
	h.ctx, h.proto = c.ctx, c.protocolOf(h.length, synchronous)
	if h.proto == eager && buf.count <= 1 {
		received, err := c.transmit(name, &h, buf.bytes(h.length), nil, dst)
		if !received && err == nil {
			err = c.alive(name, dst, tag)
		}
		return err
	}
	op := sendOps.Get().(*sendOp)
	op.init(c, name, blockedCall, &buf, dst, tag)
	received, err := c.transmit(name, &h, nil, op, dst)
	if err == nil && !received {
		if h.proto == ready {
			c.proc.await(op.self.ch)
			op.job = op.job.help()
			err = op.err
		} else {
			err = c.alive(name, dst, tag)
		}
	}
	op.release()
	return err
}

// alive returns an error if the run or the receiver has ended, and with it perhaps the message that was just sent.
func (c *Comm) alive(name string, dst, tag int) error {
	if c.world.troubled.Load() {
		if err := c.trouble(dst, false); err != nil {
			return c.fail(name, dst, tag, err)
		}
	}
	return nil
}

func (c *Comm) isend(name string, buf Buffer, dst, tag int, synchronous bool) *Request {
	if !c.plain(&buf, dst, tag) {
		if err := c.check(name, &buf, dst, tag, false); err != nil {
			return doneRequest(Status{}, err)
		}
		if dst == ProcNull {
			return doneRequest(Status{}, nil)
		}
	}
	if c.protocolOf(uint64(buf.Bytes()), synchronous) == eager {
		return doneRequest(Status{}, c.send(name, buf, dst, tag, false))
	}
	var h header
	h.fill(c, &buf, tag)
	h.ctx, h.proto = c.ctx, ready
	op := new(sendOp)
	op.init(c, name, aRequest, &buf, dst, tag)
	op.owner = op // for its name
	received, err := c.transmit(name, &h, nil, op, dst)
	if received || err != nil {
		op.done(err)
	}
	return &op.Request
}

// transmit sends a message. Every message passes here. The payload is in data or, if from is not nil, in its buffer. It
// returns true if the message is received already; from is then the caller's to end, as on error.
func (c *Comm) transmit(name string, h *header, data []byte, from *sendOp, dst int) (bool, error) {
	if t := c.tally; t != nil {
		t.send(dst, h.length)
	}
	if ev := c.proc.ev; ev != nil {
		c.sends(ev, h, from, dst)
	}
	if c.world.troubled.Load() {
		if err := c.trouble(dst, h.ctx&1 != 0); err != nil {
			return false, c.fail(name, dst, int(h.tag), err)
		}
	}
	if q := c.peers[dst]; q != nil {
		return q.arrive(h, data, from), nil
	}
	if err := c.proc.far.transmit(c.proc, h, data, from, c.worldRank(dst)); err != nil {
		return false, c.fail(name, dst, int(h.tag), err)
	}
	return false, nil
}

// Recv receives a message from rank src, or AnySource, with tag, or AnyTag, into buf. Messages of one sender that
// match the same receives are received in the order in which they were sent.
//
// Errors: ErrTruncated and ErrType with the status filled (the message is consumed), ErrBuffer, ErrRank, ErrTag,
// ErrAborted.
func (c *Comm) Recv(buf Buffer, src, tag int) (Status, error) {
	if !c.plain(&buf, src, tag) {
		if err := c.check("recv", &buf, src, tag, true); err != nil {
			return Status{}, err
		}
		if src == ProcNull {
			return nullStatus, nil
		}
	}
	if ev := c.proc.ev; ev != nil {
		c.receives(ev, nil, &buf, src, tag)
	}
	return c.proc.recv(c, &buf, src, tag)
}

// wait ends a blocking call: at once if post has ended it, or when another goroutine ends the operation.
func (op *reusedRecv) wait(ended bool) (Status, error) {
	if !ended {
		op.c.proc.await(op.self.ch)
		op.job = op.job.help()
	}
	st, err := op.st, op.err
	op.release()
	return st, err
}

// nullStatus is what a receive from ProcNull finds.
var nullStatus = Status{Source: ProcNull, Tag: AnyTag}

// Irecv starts a receive. The memory belongs to the operation until the request is complete. Errors come by the request.
func (c *Comm) Irecv(buf Buffer, src, tag int) *Request {
	if !c.plain(&buf, src, tag) {
		if err := c.check("irecv", &buf, src, tag, true); err != nil {
			return doneRequest(Status{}, err)
		}
		if src == ProcNull {
			return doneRequest(nullStatus, nil)
		}
	}
	op := c.proc.newRecvRequest()
	op.init(c, callIrecv, aRequest, c.ctx, &buf, src, tag)
	op.owner = op
	if ev := c.proc.ev; ev != nil {
		c.receives(ev, op, &buf, src, tag)
	}
	if c.proc.post(op) {
		op.done()
	}
	return &op.Request
}

// Sendrecv sends one message and receives another, in whatever order they can go, so that ranks that exchange data
// cannot block each other. The buffers must not overlap. The status is the receive's.
func (c *Comm) Sendrecv(send Buffer, dst, sendTag int, recv Buffer, src, recvTag int) (Status, error) {
	if err := c.check("sendrecv", &send, dst, sendTag, false); err != nil {
		return Status{}, err
	}
	if err := c.check("sendrecv", &recv, src, recvTag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, c.send("sendrecv", send, dst, sendTag, false)
	}
	op := newRecv()
	op.init(c, callSendrecv, blockedCall, c.ctx, &recv, src, recvTag)
	op.away.Store(true)
	ended := c.proc.post(&op.recvOp)
	sendErr := c.send("sendrecv", send, dst, sendTag, false)
	if sendErr != nil {
		op.cancel() // if it has not ended
	}
	op.away.Store(false)
	st, err := op.wait(ended)
	if sendErr != nil {
		return Status{}, sendErr
	}
	return st, err
}

// Probe waits until a message from src with tag (or wildcards) could be received, and returns its status. It does not
// receive it: where several goroutines receive, another one may come first.
func (c *Comm) Probe(src, tag int) (Status, error) {
	if err := c.check("probe", &Buffer{}, src, tag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, nil
	}
	op := newRecv()
	op.init(c, callProbe, blockedCall, c.ctx, &Buffer{}, src, tag)
	return op.wait(c.proc.post(&op.recvOp))
}

// errDisagrees is ErrMismatch as one rank sees it, which has not asked the other yet.
var errDisagrees = fmt.Errorf("%w", ErrMismatch)

// mismatch explains a message of another collective than the one that this rank is in.
func mismatch(expect uint64, h *header) error {
	if theirs, mine := collective(h.aux).String(), collective(expect).String(); theirs != mine {
		return fmt.Errorf("%w: rank %d is in %s where this rank is in %s", errDisagrees, h.src, theirs, mine)
	}
	return fmt.Errorf("%w: rank %d has made other collectives than this rank", errDisagrees, h.src)
}
