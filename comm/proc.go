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

// waiterKind is who waits for an operation.
type waiterKind uint8

const (
	aRequest    waiterKind = iota // whoever holds the Request
	blockedCall                   // one goroutine, on self.ch; the operation is pooled
	schedule                      // a collective's, by self.fn; the operation is pooled
)

// recvOp is a receive or a probe. Of its Request, pooled operations use the result only.
type recvOp struct {
	Request
	entry  posted // guarded by proc.mu while it is queued
	self   node
	waiter waiterKind
	c      *Comm
	buf    Buffer
	expect uint64 // collectives: the aux that the message must carry
	op     string
}

// sendOp is a send whose memory is used after the call that started it.
type sendOp struct {
	Request
	self   node
	waiter waiterKind
	c      *Comm
	buf    Buffer
	dst    int
	tag    int
	op     string
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

// done ends a receive with its result. The caller has taken it out of the matcher, and with that the right, and the
// duty, to end it. It does not touch op after whoever waits can know.
func (op *recvOp) done(st Status, err error) {
	op.st, op.err = st, err
	switch op.waiter {
	case blockedCall:
		op.self.ch <- struct{}{}
	case schedule:
		trampolines[op.shard].run(&op.self, err)
	default:
		op.settle()
	}
}

// done ends a send likewise.
func (op *sendOp) done(err error) {
	op.err = err
	switch op.waiter {
	case blockedCall:
		op.self.ch <- struct{}{}
	case schedule:
		trampolines[op.shard].run(&op.self, err)
	default:
		op.settle()
	}
}

// release returns a done operation that nobody else knows to its pool.
func (op *recvOp) release() {
	op.err = nil
	op.entry.isScan = false
	op.self.next, op.self.fn = nil, nil
	op.c, op.buf, op.expect = nil, Buffer{}, 0
	recvOps.Put(op)
}

func (op *sendOp) release() {
	op.err = nil
	op.self.next, op.self.fn = nil, nil
	op.c, op.buf = nil, Buffer{}
	sendOps.Put(op)
}

// init fills a fresh or released operation.
func (op *recvOp) init(c *Comm, name string, w waiterKind, ctx uint64, buf Buffer, src, tag int) {
	op.c, op.op, op.waiter, op.buf, op.shard = c, name, w, buf, c.proc.shard
	op.entry.op = op
	op.entry.key = matchKey{ctx: ctx, src: int32(src), tag: int32(tag)}
}

func (op *recvOp) fail(err error) error {
	return &Error{Op: op.op, Rank: op.c.rank, Peer: int(op.entry.key.src), Tag: int(op.entry.key.tag), Err: err}
}

func (op *sendOp) fail(err error) error {
	return &Error{Op: op.op, Rank: op.c.rank, Peer: op.dst, Tag: op.tag, Err: err}
}

// Deliver takes a frame from another rank.
func (p *proc) Deliver(_ int, f fabric.Frame) {
	var h header
	h.unpack(&f.Head)
	from, _ := f.Ref.(*sendOp)
	if p.arrive(&h, f.Data, from) && h.proto == ready {
		from.done(nil)
	}
}

// arrive takes a message, on the sender's goroutine if that is in this process. The payload is in data or, if from is not
// nil, in the sender's own memory. It returns true if the message is received and the sender's memory is free:
// then from is the caller's to end. Otherwise, if the message is eager, the memory is free too; if it
// is not, from ends when it is received.
func (p *proc) arrive(h *header, data []byte, from *sendOp) bool {
	key := h.key()
	p.mu.Lock()
	if p.dead != nil {
		p.mu.Unlock()
		p.refuse(h, from)
		return false
	}
	if e := p.m.take(key); e != nil {
		p.mu.Unlock()
		st, err := e.op.transfer(h, data, from)
		e.op.done(st, err)
		return true
	}
	var blk *block
	if h.proto == eager && h.length > 0 {
		// The copy is made outside the lock, so look again afterwards. The order of messages from one
		// goroutine is kept all the same: its next message comes after this call.
		p.mu.Unlock()
		blk = newBlock(int(h.length))
		if from != nil {
			from.buf.CopyToBytes(blk.b, 0)
		} else {
			copy(blk.b, data)
		}
		p.mu.Lock()
		if p.dead != nil {
			p.mu.Unlock()
			blk.free()
			return true
		}
		if e := p.m.take(key); e != nil {
			p.mu.Unlock()
			st, err := e.op.transfer(h, blk.b, nil)
			blk.free()
			e.op.done(st, err)
			return true
		}
	}
	msg := messages.Get().(*message)
	msg.h, msg.data = *h, blk
	if h.proto == ready {
		msg.from = from
	}
	msg.entry.key, msg.entry.msg = key, msg
	woken := p.m.add(&msg.entry)
	p.mu.Unlock()
	for woken != nil {
		e := woken
		woken, e.next = e.next, nil
		e.op.done(h.status(), nil)
	}
	return false
}

// refuse ends a send to a rank that takes nothing any more.
func (p *proc) refuse(h *header, from *sendOp) {
	if from != nil && h.proto == ready {
		from.done(from.fail(p.world.abortErr()))
	}
}

// post starts a receive. If a message is here, or the rank is dead, it returns true and the result; the operation has then
// not been queued and is the caller's to end. Otherwise the operation is queued.
func (p *proc) post(op *recvOp) (bool, Status, error) {
	p.mu.Lock()
	if p.dead != nil {
		err := p.dead
		p.mu.Unlock()
		return true, Status{}, op.fail(err)
	}
	a := p.m.peek(op.entry.key)
	if a == nil {
		p.m.post(&op.entry)
		p.mu.Unlock()
		return false, Status{}, nil
	}
	if op.entry.isScan {
		st := a.msg.h.status()
		p.mu.Unlock()
		return true, st, nil
	}
	p.m.remove(a)
	p.mu.Unlock()

	msg := a.msg
	var st Status
	var err error
	switch {
	case msg.from != nil:
		st, err = op.transfer(&msg.h, nil, msg.from)
		msg.from.done(nil)
	case msg.data != nil:
		st, err = op.transfer(&msg.h, msg.data.b, nil)
		msg.data.free()
	default:
		st, err = op.transfer(&msg.h, nil, nil)
	}
	msg.data, msg.from = nil, nil
	messages.Put(msg)
	return true, st, err
}

// transfer moves a matched message into the receive's memory, outside all locks, on the goroutine that came second, and
// returns the receive's result.
func (op *recvOp) transfer(h *header, data []byte, from *sendOp) (Status, error) {
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
	return h.status(), err
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
		op.done(Status{Cancelled: true}, op.fail(ErrCancelled))
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
		e.op.done(Status{}, e.op.fail(err))
	}
	for _, a := range as {
		msg := a.msg
		if msg.from != nil {
			msg.from.done(msg.from.fail(err))
		}
		if msg.data != nil {
			msg.data.free()
		}
	}
}
