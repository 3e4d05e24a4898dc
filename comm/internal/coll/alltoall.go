// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import "weft/comm/internal/mem"

// alltoallBits: a part that has to go d ranks ahead is sent 2^k ahead in round k if d has that bit, together with all
// such parts.
func alltoallBits(x *Schedule, call *Call) step {
	send, recv := call.In, call.Out
	n := x.size
	m := send.Len() / n
	all := x.work(send, n*m) // parts by how far they have to go
	from := x.staged(send)
	x.unstage(from, send)
	mem.Copy(all.Slice(0, (n-x.rank)*m), from.Slice(x.rank*m, n*m))
	mem.Copy(all.Slice((n-x.rank)*m, n*m), from.Slice(0, x.rank*m))
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
	return func(int) (bool, error) {
		if bit > 0 {
			each(bit, func(d, at int) { mem.Copy(all.Slice(d*m, (d+1)*m), in.Slice(at*m, (at+1)*m)) })
			bit <<= 1
		} else {
			bit = 1
		}
		if bit >= n {
			to := x.staged(recv)
			for d := range n { // what has come from d ranks behind
				src := (x.rank - d + n) % n
				mem.Copy(to.Slice(src*m, (src+1)*m), all.Slice(d*m, (d+1)*m))
			}
			x.unstage(recv, to)
			return false, nil
		}
		k := each(bit, func(d, at int) { mem.Copy(out.Slice(at*m, (at+1)*m), all.Slice(d*m, (d+1)*m)) })
		x.m.Recv((x.rank-bit+n)%n, in.Slice(0, k*m))
		x.m.Send((x.rank+bit)%n, out.Slice(0, k*m))
		return true, nil
	}
}

// alltoallDirect: Every rank sends every other its part.
func alltoallDirect(x *Schedule, call *Call) step {
	send, recv := call.In, call.Out
	n := x.size
	m := send.Len() / n
	in, all := x.staged(send), x.staged(recv)
	if mem.SameMemory(send, recv) {
		in = x.work(send, send.Len())
	}
	return func(i int) (bool, error) {
		if i > 0 {
			x.unstage(recv, all)
			return false, nil
		}
		x.unstage(in, send)
		for d := 1; d < n; d++ {
			src := (x.rank - d + n) % n
			x.m.Recv(src, all.Slice(src*m, (src+1)*m))
		}
		for d := 1; d < n; d++ {
			dst := (x.rank + d) % n
			x.m.Send(dst, in.Slice(dst*m, (dst+1)*m))
		}
		x.unstage(all.Slice(x.rank*m, (x.rank+1)*m), in.Slice(x.rank*m, (x.rank+1)*m))
		return true, nil
	}
}
