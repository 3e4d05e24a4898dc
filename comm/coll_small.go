// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/comm/internal/mem"

// Algorithms for small parts: they are moved together with those of other ranks, so there are fewer messages.

// gatherTree: binomial tree. Rank v, counted from the root, collects the parts of the ranks v to v plus its lowest bit, and sends
// them to v without it.
func (c *Comm) gatherTree(send, recv mem.Buffer, root int, id collID) *Request {
	x := c.newColl(id)
	n, m := c.size, send.Len()
	v := (c.rank - root + n) % n
	span := n
	if v != 0 {
		span = min(v&-v, n-v)
	}
	all := x.work(send, span*m) // in the order of the tree
	mem.Copy(all.Slice(0, m), send)
	return x.start(func(i int) (bool, error) {
		d := 1 << i
		switch {
		case d < span:
			x.recv((v+d+root)%n, all.Slice(d*m, min(2*d, span)*m))
			return true, nil
		case v != 0 && (i == 0 || d/2 < span): // the first round without another one
			x.send((v-v&-v+root)%n, all)
			return true, nil
		case v == 0:
			x.rotate(recv, all, root, m)
		}
		return false, nil
	})
}

// rotate copies parts, the first of which is rank by's, to where they belong by rank.
func (x *coll) rotate(dst, parts mem.Buffer, by, m int) {
	n := x.c.size
	to := x.staged(dst)
	mem.Copy(to.Slice(by*m, n*m), parts.Slice(0, (n-by)*m))
	mem.Copy(to.Slice(0, by*m), parts.Slice((n-by)*m, n*m))
	x.unstage(dst, to)
}

// scatterTree: gatherTree the other way round.
func (c *Comm) scatterTree(send, recv mem.Buffer, root int, id collID) *Request {
	x := c.newColl(id)
	n, m := c.size, recv.Len()
	v := (c.rank - root + n) % n
	span, low := n, 1
	for low < n && v&low == 0 {
		low <<= 1
	}
	if v != 0 {
		span = min(low, n-v)
	}
	var all mem.Buffer
	if v == 0 {
		all = x.work(send, n*m)
		from := x.staged(send)
		x.unstage(from, send)
		mem.Copy(all.Slice(0, (n-root)*m), from.Slice(root*m, n*m))
		mem.Copy(all.Slice((n-root)*m, n*m), from.Slice(0, root*m))
	} else {
		all = x.work(recv, span*m)
	}
	return x.start(func(i int) (bool, error) {
		switch i {
		case 0:
			if v != 0 {
				x.recv((v-low+root)%n, all)
			}
		case 1:
			for d := low >> 1; d > 0; d >>= 1 {
				if d < span {
					x.send((v+d+root)%n, all.Slice(d*m, min(2*d, span)*m))
				}
			}
			x.unstage(recv, all.Slice(0, m))
		default:
			return false, nil
		}
		return true, nil
	})
}

// allgatherDoubling: in round k each rank gets the parts of as many ranks again as it has, from the rank 2^k above, where the last
// round is what is left.
func (c *Comm) allgatherDoubling(send, recv mem.Buffer, id collID) *Request {
	x := c.newColl(id)
	n, m := c.size, send.Len()
	all := x.work(send, n*m) // parts of this rank, the next one, and so on
	mem.Copy(all.Slice(0, m), send)
	return x.start(func(i int) (bool, error) {
		d := 1 << i
		if d >= n {
			x.rotate(recv, all, c.rank, m)
			return false, nil
		}
		k := min(d, n-d)
		x.recv((c.rank+d)%n, all.Slice(d*m, (d+k)*m))
		x.send((c.rank-d+n)%n, all.Slice(0, k*m))
		return true, nil
	})
}

// alltoallBits: a part that has to go d ranks ahead is sent 2^k ahead in round k if d has that bit, together with all
// such parts.
func (c *Comm) alltoallBits(send, recv mem.Buffer, id collID) *Request {
	x := c.newColl(id)
	n := c.size
	m := send.Len() / n
	all := x.work(send, n*m) // parts by how far they have to go
	from := x.staged(send)
	x.unstage(from, send)
	mem.Copy(all.Slice(0, (n-c.rank)*m), from.Slice(c.rank*m, n*m))
	mem.Copy(all.Slice((n-c.rank)*m, n*m), from.Slice(0, c.rank*m))
	out, in := x.work(send, n*m), x.work(send, n*m)
	each := func(bit int, f func(d, at int)) int { // at counts the parts that have the bit
		at := 0
		for d := bit; d < n; d++ {
			if d&bit != 0 {
				f(d, at)
				at++
			}
		}
		return at
	}
	bit := 0
	return x.start(func(int) (bool, error) {
		if bit > 0 {
			each(bit, func(d, at int) { mem.Copy(all.Slice(d*m, (d+1)*m), in.Slice(at*m, (at+1)*m)) })
			bit <<= 1
		} else {
			bit = 1
		}
		if bit >= n {
			to := x.staged(recv)
			for d := range n { // what has come from d ranks behind
				src := (c.rank - d + n) % n
				mem.Copy(to.Slice(src*m, (src+1)*m), all.Slice(d*m, (d+1)*m))
			}
			x.unstage(recv, to)
			return false, nil
		}
		k := each(bit, func(d, at int) { mem.Copy(out.Slice(at*m, (at+1)*m), all.Slice(d*m, (d+1)*m)) })
		x.recv((c.rank-bit+n)%n, in.Slice(0, k*m))
		x.send((c.rank+bit)%n, out.Slice(0, k*m))
		return true, nil
	})
}
