// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/comm/internal/mem"

// Algorithms for large parts: every rank sends and receives about as much as there is, whatever their number.

// bcastRing: the root scatters the payload, by a binomial tree, in as many blocks as there are ranks, and these go round in a
// ring. Blocks are of bytes, since ranks may have buffers of different elements.
func (c *Comm) bcastRing(buf mem.Buffer, root int, id collID) *Request {
	x := c.newColl(id)
	n := c.size
	v := (c.rank - root + n) % n
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
	return x.start(func(i int) (bool, error) {
		switch {
		case i == 0:
			if v != 0 {
				x.recv(rankOf(v-first), blocks(v, v+span(v)))
			}
		case i == 1:
			for d := first >> 1; d > 0; d >>= 1 {
				if v+d < n {
					x.send(rankOf(v+d), blocks(v+d, v+d+span(v+d)))
				}
			}
		case i < n+1:
			s := i - 2
			left, right := (v+n-1)%n, (v+1)%n
			if b := (left - s + n) % n; b < v || b >= v+span(v) {
				x.recv(rankOf(left), blocks(b, b+1))
			}
			if b := (v - s + n) % n; b < right || b >= right+span(right) {
				x.send(rankOf(right), blocks(b, b+1))
			}
		default:
			if v != 0 {
				x.unstage(buf, staged)
			}
			return false, nil
		}
		return true, nil
	})
}

// allreduceHalves: as allreduceDoubling, and with the same bits, but in each round a pair of ranks shares what it has: each gives
// the other one half, and combines the other half. Then the halves come back, in the opposite order.
func (c *Comm) allreduceHalves(in, out mem.Buffer, op Op, id collID) *Request {
	x := c.newColl(id)
	acc := x.staged(out)
	tmp := x.work(in, in.Len())
	x.unstage(acc, in)
	ranks := foldedOf(c.rank, c.size)
	me := ranks.me
	combine := func(lo, hi int, above bool) error {
		mine, other := acc.Slice(lo, hi), tmp.Slice(lo, hi)
		if !above || op.Commutes() {
			return op.apply(other, mine)
		}
		if err := op.apply(mine, other); err != nil {
			return err
		}
		mem.Copy(mine, other)
		return nil
	}
	const (
		fold = iota
		folded
		halve
		halved
		back
		unfold
		end
	)
	type split struct{ lo, hi, mid int }
	var splits []split
	state, bit, lo, hi := fold, 1, 0, acc.Len()
	return x.start(func(int) (bool, error) {
		for {
			switch state {
			case fold:
				switch {
				case ranks.idle:
					x.send(c.rank+1, acc)
					state = unfold
					return true, nil
				case ranks.paired:
					x.recv(c.rank-1, tmp)
					state = folded
					return true, nil
				}
				state = halve
			case folded:
				if err := combine(0, acc.Len(), false); err != nil {
					return false, err
				}
				state = halve
			case halve:
				if bit >= ranks.pow {
					state = back
					continue
				}
				s := split{lo, hi, lo + (hi-lo)/2}
				splits = append(splits, s)
				peer := ranks.rankOf(me ^ bit)
				if me&bit == 0 {
					hi = s.mid
					x.recv(peer, tmp.Slice(lo, hi))
					x.send(peer, acc.Slice(s.mid, s.hi))
				} else {
					lo = s.mid
					x.recv(peer, tmp.Slice(lo, hi))
					x.send(peer, acc.Slice(s.lo, s.mid))
				}
				state = halved
				return true, nil
			case halved:
				if err := combine(lo, hi, me&bit == 0); err != nil {
					return false, err
				}
				bit <<= 1
				state = halve
			case back:
				if len(splits) == 0 {
					state = unfold
					continue
				}
				s := splits[len(splits)-1]
				splits = splits[:len(splits)-1]
				bit >>= 1
				peer := ranks.rankOf(me ^ bit)
				if me&bit == 0 {
					x.recv(peer, acc.Slice(s.mid, s.hi))
				} else {
					x.recv(peer, acc.Slice(s.lo, s.mid))
				}
				x.send(peer, acc.Slice(lo, hi))
				lo, hi = s.lo, s.hi
				return true, nil
			case unfold:
				state = end
				switch {
				case ranks.idle:
					x.recv(c.rank+1, acc)
					return true, nil
				case ranks.paired:
					x.send(c.rank-1, acc)
					return true, nil
				}
			case end:
				x.unstage(out, acc)
				return false, nil
			}
		}
	})
}
