// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"math/bits"

	"weft/comm/internal/mem"
)

// Reductions. All ranks combine in an order that depends on the number of ranks (and the root) only, never on
// time, so float results have the same bits in every run. Partial results always span consecutive
// ranks where the operator does not commute.

func errNotDivisible(n, parts int) error {
	return fmt.Errorf("%w: %d elements are not a multiple of %d ranks", ErrBuffer, n, parts)
}

// partial is a partial result and the memory to receive another.
type partial struct {
	op       Op
	acc, tmp mem.Buffer
}

// above combines acc with what was received in tmp from higher ranks.
func (p *partial) above() error {
	if p.op.Commutes() {
		return p.op.apply(p.tmp, p.acc)
	}
	err := p.op.apply(p.acc, p.tmp)
	p.acc, p.tmp = p.tmp, p.acc
	return err
}

// below combines acc with what was received in tmp from lower ranks.
func (p *partial) below() error { return p.op.apply(p.tmp, p.acc) }

// reduceTree: Binomial tree: rank v receives from v plus each bit below its lowest, then sends to v without
// its lowest. v counts from the root, or from rank 0 if the operator does not commute; rank 0 then sends the
// result on to the root.
func (c *Comm) reduceTree(in, out mem.Buffer, op Op, root int, id collID) *Request {
	x := c.newColl(id)
	n, top := c.size, root
	if !op.Commutes() {
		top = 0
	}
	v := (c.rank - top + n) % n
	p := &partial{op: op, acc: x.work(in, in.Len()), tmp: x.work(in, in.Len())}
	const (
		climb = iota
		combine
		forward
		deliver
	)
	state, bit := climb, 1
	mem.Copy(p.acc, in)
	return x.start(func(int) (bool, error) {
		for {
			switch state {
			case climb:
				switch {
				case bit >= n:
					state = forward
				case v&bit != 0:
					x.send((v-bit+top)%n, p.acc)
					state = forward
					return true, nil
				case v+bit < n:
					x.recv((v+bit+top)%n, p.tmp)
					state = combine
					return true, nil
				default:
					bit <<= 1
				}
			case combine:
				if err := p.above(); err != nil {
					return false, err
				}
				bit <<= 1
				state = climb
			case forward:
				state = deliver
				if top != root && c.rank == top {
					x.send(root, p.acc)
					return true, nil
				}
				if top != root && c.rank == root {
					x.recv(top, p.acc)
					return true, nil
				}
			case deliver:
				if c.rank == root {
					mem.Copy(out, p.acc)
				}
				return false, nil
			}
		}
	})
}

// foldedRanks are ranks of which a power of two takes part: the first ones act in pairs, each of which has an idle one, which hands its part to the next
// rank before and gets the result from it behind.
type foldedRanks struct {
	pow, extra   int // who takes part; how many pairs there are
	me           int // the caller's number, or its partner's, among those who take part
	paired, idle bool
}

func foldedOf(rank, size int) foldedRanks {
	f := foldedRanks{pow: 1 << (bits.Len(uint(size)) - 1)}
	f.extra = size - f.pow
	f.paired = rank < 2*f.extra
	f.idle = f.paired && rank%2 == 0
	if f.me = rank - f.extra; f.paired {
		f.me = rank / 2
	}
	return f
}

// rankOf returns the rank of who has a number.
func (f *foldedRanks) rankOf(number int) int {
	if number < f.extra {
		return 2*number + 1
	}
	return number + f.extra
}

// allreduceDoubling: Recursive doubling over the largest power of two that is not above Size: the ranks that
// are too many first give their values to their upper neighbours, and get the result from them.
func (c *Comm) allreduceDoubling(in, out mem.Buffer, op Op, id collID) *Request {
	x := c.newColl(id)
	acc := x.staged(out)
	p := &partial{op: op, acc: acc, tmp: x.work(in, in.Len())}
	x.unstage(acc, in)
	ranks := foldedOf(c.rank, c.size)
	me := ranks.me
	const (
		fold = iota
		folded
		double
		doubled
		unfold
		end
	)
	state, bit := fold, 1
	return x.start(func(int) (bool, error) {
		for {
			switch state {
			case fold:
				switch {
				case ranks.idle:
					x.send(c.rank+1, p.acc)
					state = unfold
					return true, nil
				case ranks.paired:
					x.recv(c.rank-1, p.tmp)
					state = folded
					return true, nil
				}
				state = double
			case folded:
				if err := p.below(); err != nil {
					return false, err
				}
				state = double
			case double:
				if bit >= ranks.pow {
					state = unfold
					continue
				}
				peer := ranks.rankOf(me ^ bit)
				x.recv(peer, p.tmp)
				x.send(peer, p.acc)
				state = doubled
				return true, nil
			case doubled:
				var err error
				if me&bit != 0 {
					err = p.below()
				} else {
					err = p.above()
				}
				if err != nil {
					return false, err
				}
				bit <<= 1
				state = double
			case unfold:
				state = end
				switch {
				case ranks.idle:
					x.recv(c.rank+1, p.acc)
					return true, nil
				case ranks.paired:
					x.send(c.rank-1, p.acc)
					return true, nil
				}
			case end:
				x.unstage(out, p.acc)
				return false, nil
			}
		}
	})
}

// scanDoubling: In round k each rank has the result of the 2^k ranks up to itself, sends it 2^k ahead and puts what
// it gets before its own.
func (c *Comm) scanDoubling(in, out mem.Buffer, op Op, id collID) *Request {
	x := c.newColl(id)
	acc := x.staged(out)
	p := &partial{op: op, acc: acc, tmp: x.work(in, in.Len())}
	x.unstage(acc, in)
	return x.start(func(i int) (bool, error) {
		if i > 0 && c.rank >= 1<<(i-1) {
			if err := p.below(); err != nil {
				return false, err
			}
		}
		dist := 1 << i
		if dist >= c.size {
			x.unstage(out, p.acc)
			return false, nil
		}
		if c.rank >= dist {
			x.recv(c.rank-dist, p.tmp)
		}
		if c.rank+dist < c.size {
			x.send(c.rank+dist, p.acc)
		}
		return true, nil
	})
}
