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

// onlyMessages makes runs that begin from now on do collectives by messages also in one process.
// For tests.
var onlyMessages atomic.Bool

// meets reports whether the ranks meet for a collective, by what all know alike.
func (c *Comm) meets(d *coll.Call) bool {
	return c.seat != nil && (!c.world.apart || c.world.cfg.chosen[d.Kind] == 0) && c.seat.Supports(d)
}

// meet is a blocking collective where the ranks meet.
func (c *Comm) meet(d *coll.Call) error {
	id := uint64(0)
	if ev := c.proc.ev; ev != nil {
		id = ev.Recorder().ID()
		c.collectiveBegins(ev, id, d.What)
	}
	outcome, err := c.seat.Do(d)
	if outcome != smcoll.Done {
		err = c.instead(outcome, *d)
	}
	if id != 0 {
		c.met(id, err)
	}
	return err
}

// instead is what becomes of a collective for which there is no place, or that a rank makes of
// messages. It takes a copy, as byMessages does.
func (c *Comm) instead(o smcoll.Outcome, d coll.Call) error {
	if o == smcoll.UseMessages {
		entered := c.proc.enter()
		defer c.proc.leave(&entered)
		return waitEntered(c.byMessages(d, true), &entered)
	}
	x := &meetCall{c: c, what: d.What}
	x.init(c)
	c.seat.Start(&d, x)
	return wait(&x.Request)
}

func (n *near) add(c *Comm) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[uint64]*smcoll.Member{}
	}
	n.all[c.ctx] = c.seat
	c.world.stages.Add(c.seat.Segment())
}

// nudged is the arrival of a nudge: something is new at a communicator's stage.
func (n *near) nudged(ctx uint64) {
	n.mu.Lock()
	s := n.all[ctx]
	n.mu.Unlock()
	if s != nil {
		s.Segment().Progress()
	}
}

// close returns when no goroutine uses the memory of the ranks any more, and none will. The run has
// ended.
func (n *near) close() {
	n.mu.Lock()
	all := n.all
	n.all = nil
	n.mu.Unlock()
	for _, s := range all {
		s.Close()
	}
}

// host is a rank's communicator, as its seat sees it.
type host Comm

func (h *host) Failure() error                             { return (*Comm)(h).barredHere() }
func (h *host) Fail(what coll.Collective, err error) error { return (*Comm)(h).failColl(what, err) }
func (h *host) Compare()                                   { h.hist.compareAsked() }
func (h *host) Explain(r int, err error) error             { return (*Comm)(h).explanation(r, err) }
func (h *host) Watch(ready func() bool)                    { h.proc.engine.Watch(ready) }

func (h *host) Number() uint64 {
	h.collSeq++
	return h.collSeq
}

func (h *host) Nudge(r int) {
	to := (*Comm)(h).worldRank(r)
	err := h.proc.frame(to, fabric.Frame{Head: [fabric.HeadWords]uint64{h.ctx, 0, 0, wire.Nudging.Word()}})
	h.proc.stranded(to, err, nil) // a rank that cannot be reached is lost, which others will say
}

func (h *host) Memory(r int) ([]byte, error) { return h.proc.ep.Shared((*Comm)(h).worldRank(r)) }

// Lost waits for the news: a rank whose memory cannot be mapped gets no messages either, so it is
// lost, or the run has ended.
func (h *host) Lost(r int, err error) error {
	to := (*Comm)(h).worldRank(r)
	news, complete := NewRequest()
	if h.proc.stranded(to, err, complete) {
		_ = wait(news)
	} else {
		h.proc.gone(to, err)
	}
	return cmp.Or(h.Failure(), error(&LostError{Rank: to, Err: err}))
}

// Panic is the text of what an operator has panicked with: of another process, all is a text.
func (h *host) Panic(err error) []byte {
	op, _ := errors.AsType[*operatorError](err)
	p := op.cause()
	if p == nil {
		p = &PanicError{Value: "it has left its goroutine"}
	}
	return fmt.Appendf(nil, "%v\x00%s", p.Value, p.Stack)
}

func (h *host) Panicked(r int, text []byte) error {
	value, stack, _ := bytes.Cut(text, []byte{0})
	return &operatorError{at: fmt.Sprintf(", at rank %d", r), panic: &PanicError{Value: string(value), Stack: stack}}
}

// meetCall is a request for a collective where ranks meet, which keeps its communicator alive. It
// cannot be withdrawn.
type meetCall struct {
	Request
	c    *Comm
	what coll.Collective
}

// newMeetCall returns a request that is in the recording, if there is one.
func (c *Comm) newMeetCall(d *coll.Call) *meetCall {
	x := &meetCall{c: c, what: d.What}
	x.init(c)
	if ev := c.proc.ev; ev != nil {
		x.named(ev)
		c.collectiveBegins(ev, x.id, x.what)
	}
	return x
}

func (x *meetCall) init(c *Comm) { x.calls, x.engine, x.owner = c.proc.calls, c.proc.engine, x }

func (*meetCall) cancel() bool     { return false }
func (x *meetCall) String() string { return fmt.Sprintf("I%v at %s", x.what, x.c.place()) }

func (x *meetCall) Complete(err error) { x.complete(Status{}, err) }

func (x *meetCall) UseMessages(d *coll.Call) { x.c.byMessages(*d, true).OnDone(x.Complete) }

// failColl is the error of a collective.
func (c *Comm) failColl(what coll.Collective, err error) error {
	if errors.Is(err, ErrMismatch) {
		if d := c.disagreement(c.proc.trouble.Load()); d != nil {
			d.heard.Store(true)
		}
	}
	if step, ok := err.(*Error); ok {
		err = step.Err // of one of its messages, which the program knows nothing of
	}
	peer := what.Root()
	if peer < 0 {
		peer = NoPeer
	}
	return c.fail(what.Name(), peer, NoPeer, err)
}
