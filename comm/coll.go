// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"weft/comm/internal/mem"
)

// collKind is which collective a collective is.
type collKind uint8

const (
	barrier collKind = 1 + iota
	bcast
	reduce
	allreduce
	scan
	gather
	scatter
	allgather
	alltoall

	// What collectives are for that are not called as such; ranks must agree on that as well.
	dup      // an allgather
	split    // likewise
	window   // the allgather that it begins with
	fence    // a barrier
	freeing  // likewise
	allocate // as window
	attach   // likewise
	setInfo  // likewise

	// Of histories only:

	agree
	shrink
	numColls
)

var collNames = [numColls]string{"no collective", "barrier", "bcast", "reduce", "allreduce", "scan", "gather", "scatter", "allgather", "alltoall",
	"dup", "split", "create window", "fence", "free window", "allocate", "attach", "set info", "agree", "shrink"}

// madeAs returns the collective that one is made as.
func (k collKind) madeAs() collKind {
	switch k {
	case dup, split, window, allocate, attach, setInfo:
		return allgather
	case fence, freeing:
		return barrier
	}
	return k
}

// coll is a collective under way at one rank: a schedule that has no goroutine. Its step function is called
// with 0, 1, 2, … and each time starts transfers; the next call comes when all of these are complete, on
// the goroutine that completed the last. Transfers of one step are concurrent; between steps the schedule may use
// the memory.
//
// Collectives of a communicator are matched by their number: their messages travel in a context of their own, with
// the number as tag. Within one collective, messages from one rank to another match in the order of the steps.
type coll struct {
	Request

	// Constant after construction.
	c    *Comm
	what collective
	tag  int
	step func(i int) (more bool, err error)
	cb   func(error)

	// pending counts the transfers of the step under way, and one for the call that starts them. Who brings
	// it to zero owns the fields below and goes on.
	pending atomic.Int32
	failed  atomic.Pointer[error] // the first error

	// Owned by whoever advances.
	next   int
	recvs  []*reusedRecv // of this step
	sends  []*sendOp
	blocks []*mem.Block // working memory, freed at the end
}

// collID names a collective of a communicator: by its number, and with what all messages of it carry.
type collID struct {
	seq  uint64
	what collective
}

// newColl returns a collective. The caller calls start.
func (c *Comm) newColl(id collID) *coll {
	x := &coll{c: c, what: id.what, tag: int(id.seq & TagUB)}
	x.calls, x.engine = c.proc.calls, c.proc.engine
	x.owner = x // for its name
	x.cb = x.transferred
	return x
}

func (x *coll) start(step func(i int) (bool, error)) *Request {
	x.step = step
	if ev := x.c.proc.ev; ev != nil {
		x.begins(ev)
	}
	x.pending.Store(1)
	x.advance()
	return &x.Request
}

// advance runs steps until one has to wait, or to the end. The caller owns the schedule.
func (x *coll) advance() {
	for {
		more := false
		if x.failed.Load() == nil {
			var err error
			if x.c.world.troubled.Load() {
				err = x.c.trouble(NoPeer, true)
			}
			if err == nil {
				more, err = x.step(x.next)
			}
			x.next++
			if err != nil {
				x.fail(err)
				more = false
			}
		}
		if x.pending.Add(-1) != 0 {
			return // the last transfer goes on
		}
		x.recycle()
		x.pending.Store(1)
		if !more {
			x.finish()
			return
		}
	}
}

// transferred is the callback of every transfer.
func (x *coll) transferred(err error) {
	if err != nil {
		x.fail(err)
	}
	if x.pending.Add(-1) == 0 {
		x.recycle()
		x.pending.Store(1)
		x.advance()
	}
}

func (x *coll) fail(err error) {
	var of *Error
	if x.failed.CompareAndSwap(nil, &err) && errors.Is(err, errDisagrees) && errors.As(err, &of) {
		x.c.ask(of.Peer, true, false) // now: what else this step waits for may never come
	}
}

// recycle returns the operations of the finished step.
func (x *coll) recycle() {
	for _, op := range x.recvs {
		op.release()
	}
	for _, op := range x.sends {
		op.release()
	}
	x.recvs, x.sends = x.recvs[:0], x.sends[:0]
}

func (x *coll) finish() {
	for _, b := range x.blocks {
		b.Free()
	}
	x.recvs, x.sends, x.blocks = nil, nil, nil // the program may keep the request
	e := x.failed.Load()
	if e == nil {
		x.complete(Status{}, nil)
		return
	}
	var of *Error
	if errors.Is(*e, errDisagrees) && errors.As(*e, &of) {
		x.c.explained(of.Err, func(err error) { x.complete(Status{}, x.c.failColl(x.what, err)) })
		return
	}
	c, err := x.c, x.c.failColl(x.what, *e)
	x.complete(Status{}, err)
	c.operatorFailed(err)
}

// work returns n elements of working memory, like b's. It lives as long as the collective.
func (x *coll) work(like mem.Buffer, n int) mem.Buffer {
	blk := mem.NewBlock(n * like.ElemSize())
	x.blocks = append(x.blocks, blk)
	return like.Over(blk.B).First(n)
}

// staged returns b itself if it is contiguous, else working memory of its size.
func (x *coll) staged(b mem.Buffer) mem.Buffer {
	if !b.Strided() {
		return b
	}
	return x.work(b, b.Len())
}

// send starts the transfer of buf to a rank, in this step.
func (x *coll) send(dst int, buf mem.Buffer) {
	c := x.c
	var h header
	h.fill(c, &buf, x.tag)
	h.ctx, h.aux, h.proto = c.ctx+1, uint64(x.what), c.protocolOf(h.length, false)
	if h.proto == eager && !buf.Strided() {
		if _, err := c.transmit("send", &h, buf.Memory(h.length), nil, dst); err != nil {
			x.fail(err)
		}
		return
	}
	op := sendOps.Get().(*sendOp)
	op.init(c, "send", schedule, &buf, dst, x.tag)
	op.self.Func = x.cb
	x.sends = append(x.sends, op)
	x.pending.Add(1)
	received, err := c.transmit("send", &h, nil, op, dst)
	if received || err != nil || h.proto == eager {
		x.ended(err)
	}
}

// ended counts a transfer that was over at once. The call that starts the step holds a count, so this is not the last.
func (x *coll) ended(err error) {
	if err != nil {
		x.fail(err)
	}
	x.pending.Add(-1)
}

// recv starts the transfer of exactly buf's size from a rank, in this step.
func (x *coll) recv(src int, buf mem.Buffer) {
	c := x.c
	op := newRecv()
	op.init(c, callRecv, schedule, c.ctx+1, &buf, src, x.tag)
	op.expect = uint64(x.what)
	op.self.Func = x.cb
	x.recvs = append(x.recvs, op)
	x.pending.Add(1)
	if c.proc.post(&op.recvOp) {
		x.ended(op.err)
	}
}

// checkRoot says whether root is a rank.
func (c *Comm) checkRoot(root int) error {
	if uint(root) >= uint(c.size) {
		return fmt.Errorf("%w: root %d; this communicator has ranks 0 to %d", ErrRank, root, c.size-1)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkShape says whether whole has n times the elements of part, and the same element type.
func checkShape(part, whole mem.Buffer, n int, what string) error {
	if whole.Len() != n*part.Len() {
		return fmt.Errorf("%w: %s of %d elements, where %d times %d are needed", ErrBuffer, what, whole.Len(), n, part.Len())
	}
	if part.Len() > 0 && (part.Kind() != whole.Kind() || part.ElemSize() != whole.ElemSize()) {
		return mem.Mismatch(whole.Kind(), part.Kind(), whole.ElemSize(), part.ElemSize())
	}
	return nil
}
