// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"weft/comm/internal/coll"
	"weft/comm/internal/smcoll"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// onlyMessages makes later runs do collectives by messages also in one process. For tests.
var onlyMessages atomic.Bool

// usesMemory reports whether a collective goes through memory. It depends only on what all ranks
// know alike.
func (c *Comm) usesMemory(d *coll.Call) bool {
	return c.member != nil && (!c.world.multiProcess || c.world.cfg.chosen[d.Kind] == 0) && c.member.Supports(d)
}

// byMemory is a blocking collective through memory.
func (c *Comm) byMemory(d *coll.Call) error {
	id := uint64(0)
	if ev := c.proc.ev; ev != nil {
		id = ev.Recorder().ID()
		c.recordCollective(ev, id, d.What)
	}
	outcome, err := c.member.Do(d)
	if outcome != smcoll.Done {
		err = c.byRequest(outcome, *d)
	}
	if id != 0 {
		c.recordCollectiveDone(id, err)
	}
	return err
}

// byRequest makes a collective as a request and waits for it: if it found no free slot, or if the
// ranks make it of messages after all. It takes a copy of d, as byMessages does.
func (c *Comm) byRequest(o smcoll.Outcome, d coll.Call) error {
	if o == smcoll.UseMessages {
		entered := c.proc.enter()
		defer c.proc.leave(&entered)
		return waitEntered(c.byMessages(d, true), &entered)
	}
	x := &memoryCall{c: c, what: d.What}
	x.init(c)
	c.member.Start(&d, x)
	return wait(&x.Request)
}

func (n *mappedComms) add(c *Comm) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[uint64]*smcoll.Member{}
	}
	n.all[c.ctx] = c.member
	c.world.segments.Add(c.member.Segment())
}

// receiveNudge handles a nudge: the communicator's shared memory has changed.
func (n *mappedComms) receiveNudge(ctx uint64) {
	n.mu.Lock()
	s := n.all[ctx]
	n.mu.Unlock()
	if s != nil {
		s.Segment().Progress()
	}
}

// close returns when no goroutine uses the memory of the ranks any more, and none will. The run has
// ended.
func (n *mappedComms) close() {
	n.mu.Lock()
	all := n.all
	n.all = nil
	n.mu.Unlock()
	for _, s := range all {
		s.Close()
	}
}

// memberHost is a rank's communicator as package smcoll uses it.
type memberHost Comm

func (h *memberHost) Failure() error { return (*Comm)(h).barredHere() }
func (h *memberHost) Fail(what coll.Collective, err error) error {
	return (*Comm)(h).failColl(what, err)
}
func (h *memberHost) Compare()                       { h.hist.compareAsked() }
func (h *memberHost) Explain(r int, err error) error { return (*Comm)(h).awaitExplanation(r, err) }
func (h *memberHost) Watch(ready func() bool)        { h.proc.engine.Watch(ready) }

func (h *memberHost) Number() uint64 {
	h.collSeq++
	return h.collSeq
}

func (h *memberHost) Nudge(r int) {
	to := (*Comm)(h).worldRank(r)
	err := h.proc.frame(to, fabric.Frame{Head: [fabric.HeadWords]uint64{h.ctx, 0, 0, wire.Nudging.Word()}})
	h.proc.awaitCause(to, err, nil) // a rank that cannot be reached is lost: others will tell
}

func (h *memberHost) Memory(r int) ([]byte, error) { return h.proc.ep.Shared((*Comm)(h).worldRank(r)) }

// Lost waits for the reason: a rank whose memory cannot be mapped gets no messages either, so it is
// lost, or the run has ended.
func (h *memberHost) Lost(r int, err error) error {
	to := (*Comm)(h).worldRank(r)
	reason, complete := NewRequest()
	if h.proc.awaitCause(to, err, complete) {
		_ = wait(reason)
	} else {
		h.proc.reportLoss(to, err)
	}
	return cmp.Or(h.Failure(), error(&LostError{Rank: to, Err: err}))
}

// Panic is an operator's panic as text: other processes get only text.
func (h *memberHost) Panic(err error) []byte {
	op, _ := errors.AsType[*operatorError](err)
	p := op.cause()
	if p == nil {
		p = &PanicError{Value: "it has left its goroutine"}
	}
	return fmt.Appendf(nil, "%v\x00%s", p.Value, p.Stack)
}

func (h *memberHost) Panicked(r int, text []byte) error {
	value, stack, _ := bytes.Cut(text, []byte{0})
	return &operatorError{at: fmt.Sprintf(", at rank %d", r), panic: &PanicError{Value: string(value), Stack: stack}}
}

// memoryCall is a request for a collective through memory, which keeps its communicator alive. It
// cannot be cancelled.
type memoryCall struct {
	Request
	c    *Comm
	what coll.Collective
}

// newMemoryCall returns a request that is in the trace recording, if there is one.
func (c *Comm) newMemoryCall(d *coll.Call) *memoryCall {
	x := &memoryCall{c: c, what: d.What}
	x.init(c)
	if ev := c.proc.ev; ev != nil {
		x.setTraceID(ev)
		c.recordCollective(ev, x.id, x.what)
	}
	return x
}

func (x *memoryCall) init(c *Comm) { x.calls, x.engine, x.owner = c.proc.calls, c.proc.engine, x }

func (*memoryCall) cancel() bool     { return false }
func (x *memoryCall) String() string { return fmt.Sprintf("I%v at %s", x.what, x.c.label()) }

func (x *memoryCall) Complete(err error) { x.complete(Status{}, err) }

func (x *memoryCall) UseMessages(d *coll.Call) { x.c.byMessages(*d, true).OnDone(x.Complete) }

// failColl is the error of a collective.
func (c *Comm) failColl(what coll.Collective, err error) error {
	if errors.Is(err, ErrMismatch) {
		if d := c.disagreement(c.proc.failure.Load()); d != nil {
			d.reported.Store(true)
		}
	}
	if step, ok := err.(*Error); ok {
		err = step.Err // of one of its messages, which the program does not know
	}
	peer := what.Root()
	if peer < 0 {
		peer = NoPeer
	}
	return c.fail(what.Name(), peer, NoPeer, err)
}
