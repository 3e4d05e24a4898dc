// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"sync"

	"weft/internal/fabric"
)

// proc is one rank of the run as a receiver: it owns the matcher into which other ranks deliver.
type proc struct {
	// Constant after construction.
	world *world
	rank  int // in the run
	ep    fabric.Endpoint
	shard uint8

	mu   sync.Mutex
	m    matcher // guarded by mu
	dead error   // guarded by mu: set at abort; from then on nothing is posted or filed
}

// recvOp is a receive or a probe.
type recvOp struct {
	Request
	entry  posted // guarded by proc.mu while it is queued
	self   node   // the blocking caller or the collective that waits for this operation
	c      *Comm
	buf    Buffer
	expect uint64 // collectives: the aux that the message must carry
	op     string
}

// sendOp is a send whose memory is used after the call that started it.
type sendOp struct {
	Request
	self node
	c    *Comm
	buf  Buffer
	dst  int
	tag  int
	op   string
}

// message is an unexpected message: its header and either a copy of its payload or the send that waits with it.
type message struct {
	entry arrival // guarded by proc.mu while it is queued
	h     header
	data  *block  // eager; nil if empty
	from  *sendOp // ready
}

var (
	recvOps  = sync.Pool{New: func() any { return &recvOp{self: node{ch: make(chan struct{}, 1)}} }}
	sendOps  = sync.Pool{New: func() any { return &sendOp{self: node{ch: make(chan struct{}, 1)}} }}
	messages = sync.Pool{New: func() any { return new(message) }}
)

// wait blocks the only goroutine that knows the operation until it is done.
func (op *recvOp) wait() {
	if op.push(&op.self) {
		<-op.self.ch
	}
}

func (op *sendOp) wait() {
	if op.push(&op.self) {
		<-op.self.ch
	}
}

// release returns a done operation that nobody else knows to its pool.
func (op *recvOp) release() {
	op.state.Store(nil)
	op.st, op.err, op.owner = Status{}, nil, nil
	op.entry = posted{}
	op.self.next, op.self.fn = nil, nil
	op.c, op.buf, op.expect = nil, Buffer{}, 0
	recvOps.Put(op)
}

func (op *sendOp) release() {
	op.state.Store(nil)
	op.st, op.err = Status{}, nil
	op.self.next, op.self.fn = nil, nil
	op.c, op.buf = nil, Buffer{}
	sendOps.Put(op)
}

// init fills a fresh or released operation.
func (op *recvOp) init(c *Comm, name string, ctx uint64, buf Buffer, src, tag int) {
	op.c, op.op, op.buf, op.shard = c, name, buf, c.proc.shard
	op.entry.op = op
	op.entry.key = matchKey{ctx: ctx, src: int32(src), tag: int32(tag)}
}

func (op *recvOp) fail(err error) error {
	return &Error{Op: op.op, Rank: op.c.rank, Peer: int(op.entry.key.src), Tag: int(op.entry.key.tag), Err: err}
}

func (op *sendOp) fail(err error) error {
	return &Error{Op: op.op, Rank: op.c.rank, Peer: op.dst, Tag: op.tag, Err: err}
}

// Deliver takes a frame from another rank, on that rank's goroutine.
func (p *proc) Deliver(_ int, f fabric.Frame) {
	var h header
	h.unpack(&f.Head)
	from, _ := f.Ref.(*sendOp)
	key := h.key()

	p.mu.Lock()
	if p.dead != nil {
		p.mu.Unlock()
		p.refuse(&h, from)
		return
	}
	if e := p.m.take(key); e != nil {
		p.mu.Unlock()
		p.receive(e.op, &h, f.Data, from)
		return
	}
	var data *block
	if h.proto == eager && h.length > 0 {
		// The copy is made outside the lock, so look again afterwards. The order of messages from one
		// goroutine is kept all the same: its next message comes after this call.
		p.mu.Unlock()
		data = newBlock(int(h.length))
		if from != nil {
			from.buf.CopyToBytes(data.b, 0)
		} else {
			copy(data.b, f.Data)
		}
		p.mu.Lock()
		if p.dead != nil {
			p.mu.Unlock()
			data.free()
			return
		}
		if e := p.m.take(key); e != nil {
			p.mu.Unlock()
			p.receive(e.op, &h, data.b, nil)
			data.free()
			return
		}
	}
	msg := messages.Get().(*message)
	msg.h, msg.data = h, data
	if h.proto == ready {
		msg.from = from
	}
	msg.entry.key, msg.entry.msg = key, msg
	woken := p.m.add(&msg.entry)
	p.mu.Unlock()
	for woken != nil {
		e := woken
		woken, e.next = e.next, nil
		e.op.complete(h.status(), nil)
	}
}

// refuse ends a send to a rank that takes nothing any more.
func (p *proc) refuse(h *header, from *sendOp) {
	if from != nil && h.proto == ready {
		from.complete(Status{}, from.fail(p.world.abortErr()))
	}
}

// post starts a receive: it takes a message that is here or queues the receive.
func (p *proc) post(op *recvOp) {
	p.mu.Lock()
	if p.dead != nil {
		err := p.dead
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
	p.m.remove(a)
	p.mu.Unlock()

	msg := a.msg
	if msg.data != nil {
		p.receive(op, &msg.h, msg.data.b, nil)
		msg.data.free()
	} else {
		p.receive(op, &msg.h, nil, msg.from)
	}
	*msg = message{}
	messages.Put(msg)
}

// receive moves a matched message into the receive's memory, outside all locks, on the goroutine that came second, and
// completes both sides. The payload is in data or, if from is not nil, still in the sender's own memory.
func (p *proc) receive(op *recvOp, h *header, data []byte, from *sendOp) {
	st := h.status()
	err := op.check(h)
	if err == nil && h.length > 0 {
		if from != nil {
			copyPayload(op.buf, from.buf)
		} else {
			op.buf.CopyFromBytes(data, 0)
		}
		if int(h.length) > op.buf.Bytes() {
			err = fmt.Errorf("%w: %d bytes into %d", ErrTruncated, h.length, op.buf.Bytes())
		}
	}
	if err != nil {
		err = op.fail(err)
	}
	sync := from != nil && h.proto == ready
	op.complete(st, err)
	if sync {
		from.complete(Status{}, nil)
	}
}

// check refuses a message that must not be copied into the receive's memory.
func (op *recvOp) check(h *header) error {
	if op.expect != h.aux {
		return mismatch(op.expect, h)
	}
	if op.expect != 0 && int(h.length) != op.buf.Bytes() {
		return fmt.Errorf("%w: rank %d sends %d bytes where this rank expects %d", ErrMismatch, h.src, h.length, op.buf.Bytes())
	}
	if h.length > 0 && !fits(op.buf.Kind(), h.elem, op.buf.ElemSize(), int(h.elemSize)) {
		return typeMismatch(op.buf.Kind(), h.elem, op.buf.ElemSize(), int(h.elemSize))
	}
	return nil
}

// cancel withdraws the receive if it is still queued.
func (op *recvOp) cancel() bool {
	p := op.c.proc
	p.mu.Lock()
	ok := p.m.unpost(&op.entry)
	p.mu.Unlock()
	if ok {
		op.complete(Status{Cancelled: true}, op.fail(ErrCancelled))
	}
	return ok
}

// kill ends everything that is queued at this rank with err, and whatever comes later.
func (p *proc) kill(err error) {
	p.mu.Lock()
	if p.dead != nil {
		p.mu.Unlock()
		return
	}
	p.dead = err
	ps, as := p.m.drain()
	p.mu.Unlock()
	for _, e := range ps {
		e.op.complete(Status{}, e.op.fail(err))
	}
	for _, a := range as {
		msg := a.msg
		if msg.from != nil {
			msg.from.complete(Status{}, msg.from.fail(err))
		}
		if msg.data != nil {
			msg.data.free()
		}
	}
}
