// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
	"weft/internal/event"
	"weft/internal/friend"
)

// What a recorded run says of messages: each send and receive between two ranks, where it is
// matched, when a request is complete; of collectives, the whole. proc.ev is nil in a run that is
// not recorded, and then nothing else is looked at.

// observe makes the ranks of this process record.
func (w *world) observe(rec *event.Recorder) {
	if rec == nil {
		return
	}
	rec.Attach()
	group := 0 // of the run that processes make together; see replay.JobGroup
	if !w.apart {
		group = rec.Group()
	}
	for _, p := range w.own {
		p.ev = rec.Shared(event.Location{Kind: event.RankLocation, Group: group, Index: p.rank})
	}
}

// unobserve ends that. The run is over.
func (w *world) unobserve() {
	if w.cfg.Trace == nil {
		return
	}
	for _, p := range w.own {
		p.ev.Retire()
	}
	(*event.Recorder)(w.cfg.Trace).Detach()
}

// commNumber makes of a context what fits into a record: who made it, and which of those it is.
func commNumber(ctx uint64) uint64 { return (ctx>>32<<12 | ctx>>1&0xfff) & (1<<24 - 1) }

func sizeAndComm(bytes, ctx uint64) uint64 { return min(bytes, 1<<40-1) | commNumber(ctx)<<40 }

// isPlain reports whether a message is one between two ranks, and not part of a collective.
func isPlain(ctx uint64) bool { return ctx&1 == 0 && ctx != leaving }

// named gives a request that is recorded its number.
func (r *Request) named(ev *event.Shared) { r.ev, r.id = ev, ev.Recorder().ID() }

// sends records a message that is about to be sent to a rank of c. from is nil if nobody waits for
// it.
func (c *Comm) sends(ev *event.Shared, h *wire.Header, from *sendOp, dst int) {
	if !isPlain(h.Ctx) {
		return
	}
	id := uint64(0)
	if from != nil && from.waiter == aRequest {
		from.named(ev)
		id = from.id
	}
	ev.Put(event.SendPosted, id, event.PeerB(c.worldRank(dst), int(h.Tag)), sizeAndComm(h.Length, h.Ctx))
}

// receives records a receive that is about to be posted. op is nil if somebody is blocked in it.
func (c *Comm) receives(ev *event.Shared, op *recvOp, buf *mem.Buffer, src, tag int) {
	id := uint64(0)
	if op != nil {
		op.named(ev)
		id = op.id
	}
	if src >= 0 {
		src = c.worldRank(src)
	}
	ev.Put(event.RecvPosted, id, event.PeerB(src, tag), sizeAndComm(uint64(buf.Bytes()), c.ctx))
}

// matched records that op has matched a message.
func (op *recvOp) matched(ev *event.Shared, h *wire.Header) {
	if isPlain(h.Ctx) {
		ev.Put(event.Matched, op.id, event.PeerB(op.c.worldRank(int(h.Src)), int(h.Tag)), sizeAndComm(h.Length, h.Ctx))
	}
}

// TraceID returns the number of the request in a recording of package trace; zero if it is not
// recorded, or was complete from the start.
func (r *Request) TraceID() uint64 { return r.id }

func init() {
	friend.EventsOfComm = func(c any) *event.Shared { return c.(*Comm).proc.ev }
	friend.EventsOfRequest = func(r any) *event.Shared { return r.(*Request).ev }
	friend.Record = func(r any, events *event.Shared) { r.(*Request).named(events) }
}

// TraceID returns the number of the communicator in a recording, which is the same at all its
// ranks. Of communicators that one rank has made, every 65536th has the same.
func (c *Comm) TraceID() uint32 { return uint32((c.ctx>>32-1)&0xffff<<16 | c.ctx>>1&0xffff) }

// A collective is recorded once at each rank, as a whole: when it is called, and when it is
// complete there. What it does in between, messages or work where ranks meet, is not: it differs
// with the algorithm. The number tells which calls of the ranks are the same collective: how many
// the communicator has had, since ranks call collectives in the same order.

// met records the end of a blocking collective.
func (c *Comm) met(id uint64, err error) {
	flags := uint64(event.EndedCompleted)
	if err != nil {
		flags |= event.EndedFailed
	}
	c.proc.ev.Put(event.RequestDone, id, flags, 0)
}

func (c *Comm) collectiveBegins(ev *event.Shared, id uint64, what coll.Collective) {
	number := c.hist.next() & TagUB
	root := int32(what.Root())
	switch {
	case root >= 0:
		root = int32(c.worldRank(int(root)))
	case what.Kind() == coll.Scan:
		// who waits for whom goes by the order in the communicator, which may be another than that
		// of the run
		root = int32(c.rank)
	}
	ev.Put(event.CollectiveBegun, id, event.CollectiveB(root, uint8(what.Kind().MadeAs()), c.size), sizeAndComm(number, c.ctx))
}
