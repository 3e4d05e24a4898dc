// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/comm/internal/mem"

// barrierByMessages: dissemination. In round k each rank tells the one 2^k ahead that the 2^(k+1) ranks up to itself have
// arrived.
func (c *Comm) barrierByMessages(id collID) *Request {
	x := c.newColl(id)
	n := c.size
	return x.start(func(i int) (bool, error) {
		dist := 1 << i
		if dist >= n {
			return false, nil
		}
		x.recv((c.rank-dist+n)%n, mem.Buffer{})
		x.send((c.rank+dist)%n, mem.Buffer{})
		return true, nil
	})
}

// bcastTree: Binomial tree: rank v (counted from the root) receives from v without its lowest bit, and sends
// to v plus each lower bit, the largest subtree first.
func (c *Comm) bcastTree(buf mem.Buffer, root int, id collID) *Request {
	x := c.newColl(id)
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

// gatherDirect: Each rank sends to the root, which receives into place.
func (c *Comm) gatherDirect(send, recv mem.Buffer, root int, id collID) *Request {
	x := c.newColl(id)
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

// unstage copies staged memory to where it belongs, or what is to be staged, unless it is there:
// others may be reading it.
func (x *coll) unstage(dst, staged mem.Buffer) {
	if !mem.SameMemory(dst, staged) {
		mem.Copy(dst, staged)
	}
}

// scatterDirect: The root sends each rank its part.
func (c *Comm) scatterDirect(send, recv mem.Buffer, root int, id collID) *Request {
	x := c.newColl(id)
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

// allgatherDirect: Every rank sends its part to every other, which in one process is one copy per part and
// rank, the least possible.
func (c *Comm) allgatherDirect(send, recv mem.Buffer, id collID) *Request {
	x := c.newColl(id)
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

// alltoallDirect: Every rank sends every other its part.
func (c *Comm) alltoallDirect(send, recv mem.Buffer, id collID) *Request {
	x := c.newColl(id)
	n := c.size
	m := send.Len() / n
	in, all := x.staged(send), x.staged(recv)
	if mem.SameMemory(send, recv) {
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
