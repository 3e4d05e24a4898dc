// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"weft/comm/internal/coll"
)

// Every collective has a form that waits and a form, with an I before its name, that returns a
// request. Collectives go through memory if all ranks are in this process, or if they are processes
// of one machine and the collective is small (package smcoll). Otherwise ranks exchange messages,
// by one of the algorithms in the table of internal/coll/choose.go.
//
// A form that waits may wait for all ranks to call it, even where a rank needs nothing from the
// others, as the root of a Bcast: this depends on sizes and on where the ranks are. Starting a
// request waits for nothing.

// Barrier returns when all ranks have called it.
func (c *Comm) Barrier() error { return c.collective(coll.Barrier, Buffer{}, Buffer{}, Op{}, -1) }

// Ibarrier returns a request that completes when all ranks have called it.
func (c *Comm) Ibarrier() *Request { return c.icollective(coll.Barrier, Buffer{}, Buffer{}, Op{}, -1) }

// Bcast copies the root's buf to every rank's buf, which must be of equal size.
func (c *Comm) Bcast(buf Buffer, root int) error {
	return c.collective(coll.Bcast, buf, buf, Op{}, root)
}

// Ibcast starts a Bcast.
func (c *Comm) Ibcast(buf Buffer, root int) *Request {
	return c.icollective(coll.Bcast, buf, buf, Op{}, root)
}

// Gather collects every rank's send, in rank order, in the root's recv, which must be Size times as
// long. On other ranks recv is not used. In place: the root's send may be its own part of recv.
func (c *Comm) Gather(send, recv Buffer, root int) error {
	return c.collective(coll.Gather, send, recv, Op{}, root)
}

// Igather starts a Gather.
func (c *Comm) Igather(send, recv Buffer, root int) *Request {
	return c.icollective(coll.Gather, send, recv, Op{}, root)
}

// Scatter gives every rank its part, in rank order, of the root's send, which must be Size times as
// long as recv. On other ranks send is not used. In place: the root's recv may be its own part of
// send.
func (c *Comm) Scatter(send, recv Buffer, root int) error {
	return c.collective(coll.Scatter, send, recv, Op{}, root)
}

// Iscatter starts a Scatter.
func (c *Comm) Iscatter(send, recv Buffer, root int) *Request {
	return c.icollective(coll.Scatter, send, recv, Op{}, root)
}

// Allgather collects every rank's send, in rank order, in every rank's recv, which must be Size
// times as long. In place: send may be the rank's own part of recv.
func (c *Comm) Allgather(send, recv Buffer) error {
	return c.collective(coll.Allgather, send, recv, Op{}, -1)
}

// Iallgather starts an Allgather.
func (c *Comm) Iallgather(send, recv Buffer) *Request {
	return c.icollective(coll.Allgather, send, recv, Op{}, -1)
}

// Alltoall gives part j of rank i's send to rank j, as part i of its recv. Both buffers have Size
// parts of one length, the same on all ranks. In place: send and recv may be the same memory.
func (c *Comm) Alltoall(send, recv Buffer) error {
	return c.collective(coll.Alltoall, send, recv, Op{}, -1)
}

// Ialltoall starts an Alltoall.
func (c *Comm) Ialltoall(send, recv Buffer) *Request {
	return c.icollective(coll.Alltoall, send, recv, Op{}, -1)
}

// Reduce combines every rank's in, element by element, in the root's out. On other ranks out is not
// used. In place: in and out may be the same memory.
func (c *Comm) Reduce(in, out Buffer, op Op, root int) error {
	return c.collective(coll.Reduce, in, out, op, root)
}

// Ireduce starts a Reduce.
func (c *Comm) Ireduce(in, out Buffer, op Op, root int) *Request {
	return c.icollective(coll.Reduce, in, out, op, root)
}

// Allreduce combines every rank's in, element by element, in every rank's out; with the same bits
// everywhere. In place: in and out may be the same memory.
func (c *Comm) Allreduce(in, out Buffer, op Op) error {
	return c.collective(coll.Allreduce, in, out, op, -1)
}

// Iallreduce starts an Allreduce.
func (c *Comm) Iallreduce(in, out Buffer, op Op) *Request {
	return c.icollective(coll.Allreduce, in, out, op, -1)
}

// Scan combines, in rank r's out, the in of ranks 0 to r. In place: in and out may be the same
// memory.
func (c *Comm) Scan(in, out Buffer, op Op) error { return c.collective(coll.Scan, in, out, op, -1) }

// Iscan starts a Scan.
func (c *Comm) Iscan(in, out Buffer, op Op) *Request {
	return c.icollective(coll.Scan, in, out, op, -1)
}

func (c *Comm) collective(k coll.Kind, in, out Buffer, op Op, root int) error {
	d := coll.Call{Kind: k.MadeAs(), What: coll.NewCollective(k, op.impl, root), In: in.b, Out: out.b, Op: op.impl, Root: root}
	if err := d.Check(c.rank, c.size); err != nil {
		return c.failColl(d.What, err)
	}
	if c.usesMemory(&d) {
		if c.proc.ev == nil {
			if seq, ok := c.member.Enter(&d); ok {
				_, err := c.member.Run(&d, seq, true)
				return err
			}
		}
		return c.byMemory(&d)
	}
	entered := c.proc.enter()
	defer c.proc.leave(&entered)
	return waitEntered(c.byMessages(d, false), &entered)
}

func (c *Comm) icollective(k coll.Kind, in, out Buffer, op Op, root int) *Request {
	d := coll.Call{Kind: k.MadeAs(), What: coll.NewCollective(k, op.impl, root), In: in.b, Out: out.b, Op: op.impl, Root: root}
	if err := d.Check(c.rank, c.size); err != nil {
		return doneRequest(Status{}, c.failColl(d.What, err))
	}
	if c.usesMemory(&d) {
		x := c.newMemoryCall(&d)
		c.member.Start(&d, x)
		return &x.Request
	}
	return c.byMessages(d, false)
}

// A Purpose tells for what another package uses one of the collectives here: ranks must agree on
// it, and errors name it. Package rma has windows, package nam stores.
type Purpose uint8

// The purposes.
const (
	ForWindow   = Purpose(coll.Window)
	ForFence    = Purpose(coll.Fence)
	ForFree     = Purpose(coll.Freeing)
	ForAllocate = Purpose(coll.Allocate)
	ForAttach   = Purpose(coll.Attach)
	ForInfo     = Purpose(coll.SetInfo)
)

// AllgatherFor is Allgather.
func (c *Comm) AllgatherFor(p Purpose, send, recv Buffer) error {
	return c.collective(coll.Kind(p), send, recv, Op{}, -1)
}

// IbarrierFor is Ibarrier.
func (c *Comm) IbarrierFor(p Purpose) *Request {
	return c.icollective(coll.Kind(p), Buffer{}, Buffer{}, Op{}, -1)
}

// NoteFor counts a collective that the caller makes of messages of its own: at the end of the run
// the ranks compare whether all have called the same ones.
func (c *Comm) NoteFor(p Purpose) {
	if c.barredHere() == nil {
		c.hist.note(coll.Kind(p))
	}
}

// Disagreed records that ranks do not agree on what NoteFor has counted, and that the program gets
// err. Each rank finds this out by itself. From now on nothing of c is compared.
func (c *Comm) Disagreed(err error) {
	c.proc.recordDisagreement(c.hist.c.ctx, &disagreement{err: err})
	if d := c.disagreement(c.proc.failure.Load()); d != nil {
		d.reported.Store(true)
	}
}

// Later adds n to the number of collectives that the caller is committed to and has not begun yet,
// since each begins when the one before it is over. While there are such, a rank whose function is
// over is not reported for lacking them. One check is enough: another rank is ahead by one
// collective at most, until this rank begins the next.
func (c *Comm) Later(n int) { c.hist.notBegun.Add(int32(n)) }
