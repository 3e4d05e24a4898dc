// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "context"

// Barrier returns when all ranks have called it.
func (c *Comm) Barrier() error { return wait(c.Ibarrier()) }

// wait is how blocking collectives wait: an abort completes the request, so no context is needed.
func wait(r *Request) error {
	if !r.Done() {
		_ = r.park(context.Background()) // fails with its context only
	}
	return r.err
}

// Ibarrier returns a request that completes when all ranks have called it. Dissemination: in round k each rank tells
// the one 2^k ahead that the 2^(k+1) ranks up to itself have arrived.
func (c *Comm) Ibarrier() *Request {
	x := c.newColl(barrier, Op{}, -1)
	n := c.size
	return x.start(func(i int) (bool, error) {
		dist := 1 << i
		if dist >= n {
			return false, nil
		}
		x.recv((c.rank-dist+n)%n, Buffer{})
		x.send((c.rank+dist)%n, Buffer{})
		return true, nil
	})
}

// Bcast copies the root's buf to every rank's buf, which must be of equal size.
func (c *Comm) Bcast(buf Buffer, root int) error { return wait(c.Ibcast(buf, root)) }

// Ibcast starts a Bcast. Binomial tree: rank v (counted from the root) receives from v without its lowest bit, and sends
// to v plus each lower bit, the largest subtree first.
func (c *Comm) Ibcast(buf Buffer, root int) *Request {
	if err := firstError(buf.Err(), c.checkRoot(root)); err != nil {
		return c.refused(bcast, root, err)
	}
	x := c.newColl(bcast, Op{}, root)
	n := c.size
	v := (c.rank - root + n) % n
	low := 1
	for low < n && v&low == 0 {
		low <<= 1
	}
	return x.start(func(i int) (bool, error) {
		switch i {
		case 0:
			if v != 0 {
				x.recv((v-low+root)%n, buf)
			}
		case 1:
			for d := low >> 1; d > 0; d >>= 1 {
				if v+d < n {
					x.send((v+d+root)%n, buf)
				}
			}
		default:
			return false, nil
		}
		return true, nil
	})
}

// Gather collects every rank's send, in rank order, in the root's recv, which must be Size times as long. On other
// ranks recv is not used. In place: the root's send may be its own part of recv.
func (c *Comm) Gather(send, recv Buffer, root int) error { return wait(c.Igather(send, recv, root)) }

// Igather starts a Gather. Each rank sends to the root, which receives into place.
func (c *Comm) Igather(send, recv Buffer, root int) *Request {
	err := firstError(send.Err(), recv.Err(), c.checkRoot(root))
	if err == nil && c.rank == root {
		err = checkShape(send, recv, c.size, "receive buffer")
	}
	if err != nil {
		return c.refused(gather, root, err)
	}
	x := c.newColl(gather, Op{}, root)
	if c.rank != root {
		return x.start(func(i int) (bool, error) {
			if i == 0 {
				x.send(root, send)
			}
			return i == 0, nil
		})
	}
	all, m := x.staged(recv), send.Len()
	return x.start(func(i int) (bool, error) {
		if i > 0 {
			x.unstage(recv, all)
			return false, nil
		}
		for r := range c.size {
			if r != root {
				x.recv(r, all.Slice(r*m, (r+1)*m))
			}
		}
		x.unstage(all.Slice(root*m, (root+1)*m), send)
		return true, nil
	})
}

// unstage copies staged memory to where it belongs, unless it is there: others may be reading it.
func (x *coll) unstage(dst, staged Buffer) {
	if !sameMemory(dst, staged) {
		copyPayload(dst, staged)
	}
}

// Scatter gives every rank its part, in rank order, of the root's send, which must be Size times as long as recv. On other
// ranks send is not used. In place: the root's recv may be its own part of send.
func (c *Comm) Scatter(send, recv Buffer, root int) error { return wait(c.Iscatter(send, recv, root)) }

// Iscatter starts a Scatter. The root sends each rank its part.
func (c *Comm) Iscatter(send, recv Buffer, root int) *Request {
	err := firstError(send.Err(), recv.Err(), c.checkRoot(root))
	if err == nil && c.rank == root {
		err = checkShape(recv, send, c.size, "send buffer")
	}
	if err != nil {
		return c.refused(scatter, root, err)
	}
	x := c.newColl(scatter, Op{}, root)
	if c.rank != root {
		return x.start(func(i int) (bool, error) {
			if i == 0 {
				x.recv(root, recv)
			}
			return i == 0, nil
		})
	}
	all, m := x.staged(send), recv.Len()
	return x.start(func(i int) (bool, error) {
		if i > 0 {
			return false, nil
		}
		x.unstage(all, send)
		for r := range c.size {
			if r != root {
				x.send(r, all.Slice(r*m, (r+1)*m))
			}
		}
		x.unstage(recv, all.Slice(root*m, (root+1)*m))
		return true, nil
	})
}

// Allgather collects every rank's send, in rank order, in every rank's recv, which must be Size times as long. In place:
// send may be the rank's own part of recv.
func (c *Comm) Allgather(send, recv Buffer) error { return wait(c.Iallgather(send, recv)) }

// Iallgather starts an Allgather. Every rank sends its part to every other, which in one process is one copy per part and
// rank, the least possible.
func (c *Comm) Iallgather(send, recv Buffer) *Request {
	if err := firstError(send.Err(), recv.Err(), checkShape(send, recv, c.size, "receive buffer")); err != nil {
		return c.refused(allgather, -1, err)
	}
	x := c.newColl(allgather, Op{}, -1)
	all, m, n := x.staged(recv), send.Len(), c.size
	return x.start(func(i int) (bool, error) {
		if i > 0 {
			x.unstage(recv, all)
			return false, nil
		}
		for d := 1; d < n; d++ {
			src := (c.rank - d + n) % n
			x.recv(src, all.Slice(src*m, (src+1)*m))
		}
		for d := 1; d < n; d++ {
			x.send((c.rank+d)%n, send)
		}
		x.unstage(all.Slice(c.rank*m, (c.rank+1)*m), send)
		return true, nil
	})
}

// Alltoall gives part j of rank i's send to rank j, as part i of its recv. Both buffers have Size parts of one length, the
// same on all ranks. In place: send and recv may be the same memory.
func (c *Comm) Alltoall(send, recv Buffer) error { return wait(c.Ialltoall(send, recv)) }

// Ialltoall starts an Alltoall. Every rank sends every other its part.
func (c *Comm) Ialltoall(send, recv Buffer) *Request {
	err := firstError(send.Err(), recv.Err(), checkShape(send, recv, 1, "receive buffer"))
	if err == nil && send.Len()%c.size != 0 {
		err = errNotDivisible(send.Len(), c.size)
	}
	if err != nil {
		return c.refused(alltoall, -1, err)
	}
	x := c.newColl(alltoall, Op{}, -1)
	n := c.size
	m := send.Len() / n
	in, all := x.staged(send), x.staged(recv)
	if sameMemory(send, recv) {
		in = x.work(send, send.Len())
	}
	return x.start(func(i int) (bool, error) {
		if i > 0 {
			x.unstage(recv, all)
			return false, nil
		}
		x.unstage(in, send)
		for d := 1; d < n; d++ {
			src := (c.rank - d + n) % n
			x.recv(src, all.Slice(src*m, (src+1)*m))
		}
		for d := 1; d < n; d++ {
			dst := (c.rank + d) % n
			x.send(dst, in.Slice(dst*m, (dst+1)*m))
		}
		x.unstage(all.Slice(c.rank*m, (c.rank+1)*m), in.Slice(c.rank*m, (c.rank+1)*m))
		return true, nil
	})
}
