// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/internal/fabric"
)

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

// frame makes the frame of a message. If small, the payload comes with it.
func (c *Comm) frame(ctx uint64, buf Buffer, tag int, aux uint64, proto protocol) fabric.Frame {
	h := header{
		proto:    proto,
		elem:     buf.Kind(),
		elemSize: uint32(buf.ElemSize()),
		ctx:      ctx,
		src:      int32(c.rank),
		tag:      int32(tag),
		length:   uint64(buf.Bytes()),
		aux:      aux,
	}
	return fabric.Frame{Head: h.pack()}
}

// protocolOf chooses how a message travels.
func (c *Comm) protocolOf(buf Buffer, synchronous bool) protocol {
	if synchronous || buf.Bytes() > max(c.eager, 0) {
		return ready
	}
	return eager
}

func (c *Comm) send(name string, buf Buffer, dst, tag int, synchronous bool) error {
	if err := c.check(name, buf, dst, tag, false); err != nil {
		return err
	}
	if dst == ProcNull {
		return nil
	}
	proto := c.protocolOf(buf, synchronous)
	f := c.frame(c.ctx, buf, tag, 0, proto)
	data, contiguous := buf.Contiguous()
	if proto == eager && contiguous {
		f.Data = data
		return c.transmit(name, f, dst, tag)
	}
	op := sendOps.Get().(*sendOp)
	op.init(c, name, buf, dst, tag)
	f.Ref = op
	err := c.transmit(name, f, dst, tag)
	if err == nil && proto == ready {
		op.wait()
		err = op.err
	}
	op.release()
	return err
}

func (op *sendOp) init(c *Comm, name string, buf Buffer, dst, tag int) {
	op.c, op.op, op.buf, op.dst, op.tag, op.shard = c, name, buf, dst, tag, c.proc.shard
}

func (c *Comm) isend(name string, buf Buffer, dst, tag int, synchronous bool) *Request {
	if err := c.check(name, buf, dst, tag, false); err != nil {
		return doneRequest(Status{}, err)
	}
	if dst == ProcNull {
		return doneRequest(Status{}, nil)
	}
	proto := c.protocolOf(buf, synchronous)
	if proto == eager {
		return doneRequest(Status{}, c.send(name, buf, dst, tag, false))
	}
	f := c.frame(c.ctx, buf, tag, 0, proto)
	op := new(sendOp)
	op.init(c, name, buf, dst, tag)
	f.Ref = op
	if err := c.transmit(name, f, dst, tag); err != nil {
		op.complete(Status{}, err)
	}
	return &op.Request
}

// transmit hands a frame to the fabric. Every message passes here.
func (c *Comm) transmit(name string, f fabric.Frame, dst, tag int) error {
	if err := c.proc.ep.Send(c.worldRank(dst), f); err != nil {
		return c.fail(name, dst, tag, err)
	}
	return nil
}

// Recv receives a message from rank src, or AnySource, with tag, or AnyTag, into buf. Messages of one sender that
// match the same receives are received in the order in which they were sent.
//
// Errors: ErrTruncated and ErrType with the status filled (the message is consumed), ErrBuffer, ErrRank, ErrTag,
// ErrAborted.
func (c *Comm) Recv(buf Buffer, src, tag int) (Status, error) {
	if err := c.check("recv", buf, src, tag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, nil
	}
	op := recvOps.Get().(*recvOp)
	op.init(c, "recv", c.ctx, buf, src, tag)
	c.proc.post(op)
	op.wait()
	st, err := op.st, op.err
	op.release()
	return st, err
}

// nullStatus is what a receive from ProcNull finds.
var nullStatus = Status{Source: ProcNull, Tag: AnyTag}

// Irecv starts a receive. The memory belongs to the operation until the request is complete. Errors come by the request.
func (c *Comm) Irecv(buf Buffer, src, tag int) *Request {
	if err := c.check("irecv", buf, src, tag, true); err != nil {
		return doneRequest(Status{}, err)
	}
	if src == ProcNull {
		return doneRequest(nullStatus, nil)
	}
	op := new(recvOp)
	op.init(c, "irecv", c.ctx, buf, src, tag)
	op.owner = op
	c.proc.post(op)
	return &op.Request
}

// Sendrecv sends one message and receives another, in whatever order they can go, so that ranks that exchange data
// cannot block each other. The buffers must not overlap. The status is the receive's.
func (c *Comm) Sendrecv(send Buffer, dst, sendTag int, recv Buffer, src, recvTag int) (Status, error) {
	if err := c.check("sendrecv", send, dst, sendTag, false); err != nil {
		return Status{}, err
	}
	if err := c.check("sendrecv", recv, src, recvTag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, c.send("sendrecv", send, dst, sendTag, false)
	}
	op := recvOps.Get().(*recvOp)
	op.init(c, "sendrecv", c.ctx, recv, src, recvTag)
	c.proc.post(op)
	sendErr := c.send("sendrecv", send, dst, sendTag, false)
	if sendErr != nil {
		op.cancel()
	}
	op.wait()
	st, err := op.st, op.err
	op.release()
	if sendErr != nil {
		return Status{}, sendErr
	}
	return st, err
}

// Probe waits until a message from src with tag (or wildcards) could be received, and returns its status. It does not
// receive it: where several goroutines receive, another one may come first.
func (c *Comm) Probe(src, tag int) (Status, error) {
	if err := c.check("probe", Buffer{}, src, tag, true); err != nil {
		return Status{}, err
	}
	if src == ProcNull {
		return nullStatus, nil
	}
	op := recvOps.Get().(*recvOp)
	op.init(c, "probe", c.ctx, Buffer{}, src, tag)
	op.entry.isScan = true
	c.proc.probe(op)
	op.wait()
	st, err := op.st, op.err
	op.release()
	return st, err
}

// Iprobe reports whether a message from src with tag (or wildcards) could be received now, and its status.
func (c *Comm) Iprobe(src, tag int) (bool, Status, error) {
	if err := c.check("iprobe", Buffer{}, src, tag, true); err != nil {
		return false, Status{}, err
	}
	if src == ProcNull {
		return true, nullStatus, nil
	}
	p := c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead != nil {
		return false, Status{}, c.fail("iprobe", src, tag, p.dead)
	}
	a := p.m.peek(matchKey{ctx: c.ctx, src: int32(src), tag: int32(tag)})
	if a == nil {
		return false, Status{}, nil
	}
	return true, a.msg.h.status(), nil
}

// probe completes op if a message is here, or else queues it until one comes.
func (p *proc) probe(op *recvOp) {
	p.mu.Lock()
	if err := p.dead; err != nil {
		p.mu.Unlock()
		op.complete(Status{}, op.fail(err))
		return
	}
	a := p.m.peek(op.entry.key)
	if a == nil {
		p.m.post(&op.entry)
		p.mu.Unlock()
		return
	}
	st := a.msg.h.status()
	p.mu.Unlock()
	op.complete(st, nil)
}

// mismatch explains a message of another collective than the one that this rank is in.
func mismatch(expect uint64, h *header) error {
	return fmt.Errorf("%w: rank %d is in %v where this rank is in %v", ErrMismatch, h.src, collective(h.aux), collective(expect))
}
