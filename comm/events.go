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

// A trace recording of a run has each send and receive between two ranks, where it is matched, and
// when a request is complete; of a collective it has the whole only. proc.ev is nil in a run that
// is not recorded; that one check is the cost then.

// observe starts recording at the ranks of this process.
func (w *world) observe(rec *event.Recorder) {
	if rec == nil {
		return
	}
	rec.Attach()
	group := 0 // the run that several processes make; see replay.JobGroup
	if !w.multiProcess {
		group = rec.Group()
	}
	for _, p := range w.own {
		p.ev = rec.Shared(event.Location{Kind: event.RankLocation, Group: group, Index: p.rank})
	}
}

// unobserve stops the recording. The run is over.
func (w *world) unobserve() {
	if w.cfg.Trace == nil {
		return
	}
	for _, p := range w.own {
		p.ev.Retire()
	}
	(*event.Recorder)(w.cfg.Trace).Detach()
}

// commNumber makes a number for trace records of a context: the rank that made it, and that rank's
// count.
func commNumber(ctx uint64) uint64 { return (ctx>>32<<12 | ctx>>1&0xfff) & (1<<24 - 1) }

func sizeAndComm(bytes, ctx uint64) uint64 { return min(bytes, 1<<40-1) | commNumber(ctx)<<40 }

// isPlain reports whether a message is between two ranks, and not part of a collective.
func isPlain(ctx uint64) bool { return ctx&1 == 0 && ctx != leaveCtx }

// setTraceID gives a request that is recorded its number.
func (r *Request) setTraceID(ev *event.Shared) { r.ev, r.id = ev, ev.Recorder().ID() }

// recordSend records a message that is about to be sent to a rank of c. from is nil if nothing
// waits for its receive.
func (c *Comm) recordSend(ev *event.Shared, h *wire.Header, from *sendOp, dst int) {
	if !isPlain(h.Ctx) {
		return
	}
	id := uint64(0)
	if from != nil && from.waiter == aRequest {
		from.setTraceID(ev)
		id = from.id
	}
	ev.Put(event.SendPosted, id, event.PeerB(c.worldRank(dst), int(h.Tag)), sizeAndComm(h.Length, h.Ctx))
}

// recordRecv records a receive that is about to be posted. op is nil for a blocking call.
func (c *Comm) recordRecv(ev *event.Shared, op *recvOp, buf *mem.Buffer, src, tag int) {
	id := uint64(0)
	if op != nil {
		op.setTraceID(ev)
		id = op.id
	}
	if src >= 0 {
		src = c.worldRank(src)
	}
	ev.Put(event.RecvPosted, id, event.PeerB(src, tag), sizeAndComm(uint64(buf.Bytes()), c.ctx))
}

// recordMatch records that op has matched a message.
func (op *recvOp) recordMatch(ev *event.Shared, h *wire.Header) {
	if isPlain(h.Ctx) {
		ev.Put(event.Matched, op.id, event.PeerB(op.c.worldRank(int(h.Src)), int(h.Tag)), sizeAndComm(h.Length, h.Ctx))
	}
}

// TraceID returns the number of the request in a recording of package trace. It is zero if the
// request is not recorded, or was complete from the start.
func (r *Request) TraceID() uint64 { return r.id }

func init() {
	friend.EventsOfComm = func(c any) *event.Shared { return c.(*Comm).proc.ev }
	friend.EventsOfRequest = func(r any) *event.Shared { return r.(*Request).ev }
	friend.Record = func(r any, events *event.Shared) { r.(*Request).setTraceID(events) }
}

// TraceID returns the number of the communicator in a recording, which is the same at all its
// ranks. Of the communicators that one rank has made, every 65536th has the same number.
func (c *Comm) TraceID() uint32 { return uint32((c.ctx>>32-1)&0xffff<<16 | c.ctx>>1&0xffff) }

// A collective is recorded once at each rank, as a whole: when it is called, and when it is
// complete there. Its messages, or its work in shared memory, are not recorded: they differ with
// the algorithm. Ranks call collectives in one order, so the number of a call among the
// communicator's collectives tells which calls of the ranks belong together.

// recordCollectiveDone records the end of a blocking collective.
func (c *Comm) recordCollectiveDone(id uint64, err error) {
	flags := uint64(event.EndedCompleted)
	if err != nil {
		flags |= event.EndedFailed
	}
	c.proc.ev.Put(event.RequestDone, id, flags, 0)
}

func (c *Comm) recordCollective(ev *event.Shared, id uint64, what coll.Collective) {
	number := c.hist.next() & TagUB
	root := int32(what.Root())
	switch {
	case root >= 0:
		root = int32(c.worldRank(int(root)))
	case what.Kind().Upward():
		// ranks wait for each other in the order of the communicator, which may differ from the
		// order of the run
		root = int32(c.rank)
	}
	ev.Put(event.CollectiveBegun, id, event.CollectiveB(root, uint8(what.Kind().MadeAs()), c.size), sizeAndComm(number, c.ctx))
}
