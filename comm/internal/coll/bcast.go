// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"math/bits"

	"weft/comm/internal/mem"
)

// bcastTree is a binomial tree. Rank v, counted from the root, receives from v without its lowest
// bit, and sends to v plus each lower bit, the largest subtree first.
func bcastTree(x *Schedule, call *Call) step {
	buf, root := call.buffer(x.rank), call.Root
	return func(i int) (bool, error) {
		if i < 2 {
			x.descend(i, root, func(int) mem.Buffer { return buf })
		}
		return i < 2, nil
	}
}

// spanOf returns how many ranks the subtree of rank v has, v included, in a binomial tree of n
// ranks. v is counted from the root.
func spanOf(v, n int) int {
	if v == 0 {
		return n
	}
	return min(v&-v, n-v)
}

// descend starts step 0 or 1 of a transfer down such a tree: a rank receives its part, and then
// sends the parts of its children. part returns the part of rank v, counted from the root.
func (x *Schedule) descend(i, root int, part func(v int) mem.Buffer) {
	n := x.size
	v := (x.rank - root + n) % n
	switch {
	case i > 0:
		for d := 1 << bits.Len(uint(spanOf(v, n)-1)) >> 1; d > 0; d >>= 1 {
			x.m.Send((v+d+root)%n, part(v+d))
		}
	case v != 0:
		x.m.Recv((v-v&-v+root)%n, part(v))
	}
}

// bcastRing: the root scatters the payload by a binomial tree, in as many blocks as there are
// ranks, and the blocks go round in a ring. Blocks are cut by bytes, since the elements may differ
// between ranks.
func bcastRing(x *Schedule, call *Call) step {
	buf, root := call.buffer(x.rank), call.Root
	n := x.size
	v := (x.rank - root + n) % n
	packed := x.contiguous(buf)
	if v == 0 {
		x.move(packed, buf)
	}
	whole, _ := packed.Contiguous()
	// Does not overflow up to 2^31 ranks and 2^32 bytes.
	bound := func(i int) int { return int(uint64(len(whole)) * uint64(i) / uint64(n)) }
	blocks := func(lo, hi int) mem.Buffer { return mem.Of(whole[bound(lo):bound(hi)]) }
	return func(i int) (bool, error) {
		switch {
		case i < 2:
			x.descend(i, root, func(v int) mem.Buffer { return blocks(v, v+spanOf(v, n)) })
		case i < n+1:
			s := i - 2
			left, right := (v+n-1)%n, (v+1)%n
			if b := (left - s + n) % n; b < v || b >= v+spanOf(v, n) {
				x.m.Recv((left+root)%n, blocks(b, b+1))
			}
			if b := (v - s + n) % n; b < right || b >= right+spanOf(right, n) {
				x.m.Send((right+root)%n, blocks(b, b+1))
			}
		default:
			if v != 0 {
				x.move(buf, packed)
			}
			return false, nil
		}
		return true, nil
	}
}
