// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import "weft/comm/internal/mem"

// alltoallBits is Bruck's algorithm: a block for the rank d above goes to the rank 2^k above in
// round k, if d has that bit, in one message with all such blocks.
func alltoallBits(x *Schedule, call *Call) step {
	send, recv := call.In, call.Out
	n := x.size
	m := send.Len() / n
	all := x.work(send, n*m) // blocks by how many ranks they still have to go
	x.rotate(all, send, n-x.rank, m)
	out, in := x.work(send, n*m), x.work(send, n*m)
	each := func(bit int, f func(d, at int)) int { // at counts the blocks that have the bit
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
			to := x.contiguous(recv)
			for d := range n { // the block of the rank d below
				src := (x.rank - d + n) % n
				mem.Copy(to.Slice(src*m, (src+1)*m), all.Slice(d*m, (d+1)*m))
			}
			x.move(recv, to)
			return false, nil
		}
		k := each(bit, func(d, at int) { mem.Copy(out.Slice(at*m, (at+1)*m), all.Slice(d*m, (d+1)*m)) })
		x.m.Recv((x.rank-bit+n)%n, in.Slice(0, k*m))
		x.m.Send((x.rank+bit)%n, out.Slice(0, k*m))
		return true, nil
	}
}

// alltoallDirect: each rank sends each other rank its block.
func alltoallDirect(x *Schedule, call *Call) step {
	send, recv := call.In, call.Out
	m := send.Len() / x.size
	in := x.contiguous(send)
	if mem.SameMemory(send, recv) {
		in = x.work(send, send.Len())
	}
	x.move(in, send)
	return x.direct(recv, m, func(dst int) mem.Buffer { return in.Slice(dst*m, (dst+1)*m) })
}
