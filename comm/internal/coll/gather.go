// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import "weft/comm/internal/mem"

// gatherTree is a binomial tree. Rank v, counted from the root, collects the blocks of the ranks
// from v up to v plus its lowest bit, and sends them to v without that bit.
func gatherTree(x *Schedule, call *Call) step {
	send, recv, root := call.In, call.Out, call.Root
	n, m := x.size, send.Len()
	v := (x.rank - root + n) % n
	span := spanOf(v, n)
	all := x.work(send, span*m) // in the order of the tree
	mem.Copy(all.Slice(0, m), send)
	return func(i int) (bool, error) {
		d := 1 << i
		switch {
		case d < span:
			x.m.Recv((v+d+root)%n, all.Slice(d*m, min(2*d, span)*m))
			return true, nil
		case v != 0 && (i == 0 || d/2 < span): // the first round without a receive
			x.m.Send((v-v&-v+root)%n, all)
			return true, nil
		case v == 0:
			x.rotate(recv, all, root, m)
		}
		return false, nil
	}
}

// rotate copies the blocks of all ranks, the first of which is rank by's, to dst in the order of
// the ranks.
func (x *Schedule) rotate(dst, parts mem.Buffer, by, m int) {
	n := x.size
	to, from := x.contiguous(dst), x.contiguous(parts)
	x.move(from, parts)
	mem.Copy(to.Slice(by*m, n*m), from.Slice(0, (n-by)*m))
	mem.Copy(to.Slice(0, by*m), from.Slice((n-by)*m, n*m))
	x.move(dst, to)
}

// gatherDirect: each rank sends to the root, which receives into its output buffer.
func gatherDirect(x *Schedule, call *Call) step {
	send, recv, root := call.In, call.Out, call.Root
	if x.rank != root {
		return func(i int) (bool, error) {
			if i == 0 {
				x.m.Send(root, send)
			}
			return i == 0, nil
		}
	}
	all, m := x.contiguous(recv), send.Len()
	return func(i int) (bool, error) {
		if i > 0 {
			x.move(recv, all)
			return false, nil
		}
		for r := range x.size {
			if r != root {
				x.m.Recv(r, all.Slice(r*m, (r+1)*m))
			}
		}
		x.move(all.Slice(root*m, (root+1)*m), send)
		return true, nil
	}
}

// scatterTree is gatherTree in the other direction.
func scatterTree(x *Schedule, call *Call) step {
	send, recv, root := call.In, call.Out, call.Root
	n, m := x.size, recv.Len()
	v := (x.rank - root + n) % n
	var all mem.Buffer // blocks in the order of the tree, from this rank on
	if v == 0 {
		all = x.work(send, n*m)
		x.rotate(all, send, n-root, m)
	} else {
		all = x.work(recv, spanOf(v, n)*m)
	}
	return func(i int) (bool, error) {
		if i < 2 {
			x.descend(i, root, func(w int) mem.Buffer { return all.Slice((w-v)*m, (w-v+spanOf(w, n))*m) })
		}
		if i == 1 {
			x.move(recv, all.Slice(0, m))
		}
		return i < 2, nil
	}
}

// scatterDirect: the root sends each rank its block.
func scatterDirect(x *Schedule, call *Call) step {
	send, recv, root := call.In, call.Out, call.Root
	if x.rank != root {
		return func(i int) (bool, error) {
			if i == 0 {
				x.m.Recv(root, recv)
			}
			return i == 0, nil
		}
	}
	all, m := x.contiguous(send), recv.Len()
	return func(i int) (bool, error) {
		if i > 0 {
			return false, nil
		}
		x.move(all, send)
		for r := range x.size {
			if r != root {
				x.m.Send(r, all.Slice(r*m, (r+1)*m))
			}
		}
		x.move(recv, all.Slice(root*m, (root+1)*m))
		return true, nil
	}
}

// allgatherDoubling: in round k each rank receives, from the rank 2^k above, as many blocks as it
// has. In the last round it receives only those that are missing.
func allgatherDoubling(x *Schedule, call *Call) step {
	send, recv := call.In, call.Out
	n, m := x.size, send.Len()
	all := x.work(send, n*m) // the blocks of this rank, the next one, and so on
	mem.Copy(all.Slice(0, m), send)
	return func(i int) (bool, error) {
		d := 1 << i
		if d >= n {
			x.rotate(recv, all, x.rank, m)
			return false, nil
		}
		k := min(d, n-d)
		x.m.Recv((x.rank+d)%n, all.Slice(d*m, (d+k)*m))
		x.m.Send((x.rank-d+n)%n, all.Slice(0, k*m))
		return true, nil
	}
}

// allgatherDirect: each rank sends its block to each other rank. In one process that is one copy
// for each block and rank, the least possible.
func allgatherDirect(x *Schedule, call *Call) step {
	send := call.In
	return x.direct(call.Out, send.Len(), func(int) mem.Buffer { return send })
}

// direct returns a step that sends each rank its block, and receives one from each.
func (x *Schedule) direct(recv mem.Buffer, m int, part func(dst int) mem.Buffer) step {
	all, n := x.contiguous(recv), x.size
	return func(i int) (bool, error) {
		if i > 0 {
			x.move(recv, all)
			return false, nil
		}
		for d := 1; d < n; d++ {
			src := (x.rank - d + n) % n
			x.m.Recv(src, all.Slice(src*m, (src+1)*m))
		}
		for d := 1; d < n; d++ {
			dst := (x.rank + d) % n
			x.m.Send(dst, part(dst))
		}
		x.move(all.Slice(x.rank*m, (x.rank+1)*m), part(x.rank))
		return true, nil
	}
}
