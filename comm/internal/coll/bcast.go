// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import "weft/comm/internal/mem"

// bcastTree: Binomial tree: rank v (counted from the root) receives from v without its lowest bit, and sends
// to v plus each lower bit, the largest subtree first.
func bcastTree(x *Schedule, call *Call) step {
	buf, root := call.buffer(x.rank), call.Root
	n := x.size
	v := (x.rank - root + n) % n
	low := 1
	for low < n && v&low == 0 {
		low <<= 1
	}
	return func(i int) (bool, error) {
		switch i {
		case 0:
			if v != 0 {
				x.m.Recv((v-low+root)%n, buf)
			}
		case 1:
			for d := low >> 1; d > 0; d >>= 1 {
				if v+d < n {
					x.m.Send((v+d+root)%n, buf)
				}
			}
		default:
			return false, nil
		}
		return true, nil
	}
}

// bcastRing: the root scatters the payload, by a binomial tree, in as many blocks as there are ranks, and these go round in a
// ring. Blocks are of bytes, since ranks may have buffers of different elements.
func bcastRing(x *Schedule, call *Call) step {
	buf, root := call.buffer(x.rank), call.Root
	n := x.size
	v := (x.rank - root + n) % n
	staged := x.staged(buf)
	if v == 0 {
		x.unstage(staged, buf)
	}
	whole, _ := staged.Contiguous()
	bound := func(i int) int { return int(uint64(len(whole)) * uint64(i) / uint64(n)) } // of 2^31 ranks and 2^32 bytes at least
	blocks := func(lo, hi int) mem.Buffer { return mem.Of(whole[bound(lo):bound(hi)]) }
	span := func(v int) int { // blocks that the tree brings to a rank
		if v == 0 {
			return n
		}
		return min(v&-v, n-v)
	}
	rankOf := func(v int) int { return (v + root) % n }
	first := 1
	for first < n && v&first == 0 {
		first <<= 1
	}
	return func(i int) (bool, error) {
		switch {
		case i == 0:
			if v != 0 {
				x.m.Recv(rankOf(v-first), blocks(v, v+span(v)))
			}
		case i == 1:
			for d := first >> 1; d > 0; d >>= 1 {
				if v+d < n {
					x.m.Send(rankOf(v+d), blocks(v+d, v+d+span(v+d)))
				}
			}
		case i < n+1:
			s := i - 2
			left, right := (v+n-1)%n, (v+1)%n
			if b := (left - s + n) % n; b < v || b >= v+span(v) {
				x.m.Recv(rankOf(left), blocks(b, b+1))
			}
			if b := (v - s + n) % n; b < right || b >= right+span(right) {
				x.m.Send(rankOf(right), blocks(b, b+1))
			}
		default:
			if v != 0 {
				x.unstage(buf, staged)
			}
			return false, nil
		}
		return true, nil
	}
}
