// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/internal/event"

// A collective is recorded once at each rank, as a whole: when it is called, and when it is complete there. What it does in between, messages or
// work at a hub, is not: it differs with the algorithm. The number tells which calls of the ranks are the same collective. It is that of the
// communicator's collectives by messages, which the ranks agree on since they call collectives in the same order; those at the hub are counted in
// where they are recorded, which is at all ranks of a hub or at none.

// begins records a collective by messages, unless its caller has.
func (x *coll) begins(ev *event.Shared) {
	if x.c.parting.CompareAndSwap(uint64(x.tag)+1, 0) {
		return
	}
	x.named(ev)
	x.c.collectiveBegins(ev, x.id, x.what, uint64(x.tag))
}

// begins records the request of a collective at the hub.
func (x *hubCall) begins(ev *event.Shared) {
	x.named(ev)
	x.c.collectiveBegins(ev, x.id, x.what, x.c.nextCollective())
}

// meets records a blocking collective, and returns the number under which met ends it.
func (c *Comm) meets(d *collCall) uint64 {
	ev := c.proc.ev
	id := ev.Recorder().ID()
	c.collectiveBegins(ev, id, d.what, c.nextCollective())
	return id
}

// meetsFar is meets for the board, which counts by itself: collectives of one communicator are called one after the other, so the number is the next.
func (c *Comm) meetsFar(d *collCall) uint64 {
	ev := c.proc.ev
	id := ev.Recorder().ID()
	c.collectiveBegins(ev, id, d.what, uint64((c.collSeq.Load()+1)&TagUB))
	return id
}

// partsFar makes a collective of messages that has been recorded under id, since it was to be at the board, and is one with some ranks that are not.
func (c *Comm) partsFar(id uint64, d collCall) error {
	c.parting.Store(d.seq&TagUB + 1)
	entered := c.proc.enter()
	defer c.proc.leave(&entered)
	err := waitEntered(c.byMessages(d), &entered)
	c.met(id, err)
	return err
}

// met records the end of a blocking collective.
func (c *Comm) met(id uint64, err error) {
	flags := uint64(event.EndedCompleted)
	if err != nil {
		flags |= event.EndedFailed
	}
	c.proc.ev.Put(event.RequestDone, id, flags, 0)
}

// nextCollective numbers a collective that uses no tag.
func (c *Comm) nextCollective() uint64 { return uint64(c.collSeq.Add(1) & TagUB) }

func (c *Comm) collectiveBegins(ev *event.Shared, id uint64, what collective, number uint64) {
	root := int32(what.root())
	switch {
	case root >= 0:
		root = int32(c.worldRank(int(root)))
	case what.kind() == scan:
		root = int32(c.rank) // who waits for whom goes by the order in the communicator, which may be another than that of the run
	}
	ev.Put(event.CollectiveBegun, id, event.CollectiveB(root, uint8(what.kind().madeAs()), c.size), sizeAndComm(number, c.ctx))
}
