// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"math/bits"

	"weft/comm/internal/mem"
)

// Reductions. All ranks combine in an order that depends on the number of ranks (and the root) only, never on
// time, so float results have the same bits in every run. Partial results always span consecutive
// ranks where the operator does not commute.

// partial is a partial result and the memory to receive another.
type partial struct {
	op       *Operator
	acc, tmp mem.Buffer
}

// above combines acc with what was received in tmp from higher ranks.
func (p *partial) above() error {
	if p.op.Commutes() {
		return p.op.Apply(p.tmp, p.acc)
	}
	err := p.op.Apply(p.acc, p.tmp)
	p.acc, p.tmp = p.tmp, p.acc
	return err
}

// below combines acc with what was received in tmp from lower ranks.
func (p *partial) below() error { return p.op.Apply(p.tmp, p.acc) }

// reduceTree: Binomial tree: rank v receives from v plus each bit below its lowest, then sends to v without
// its lowest. v counts from the root, or from rank 0 if the operator does not commute; rank 0 then sends the
// result on to the root.
func reduceTree(x *Schedule, call *Call) step {
	in, out, op, root := call.In, call.Out, call.Op, call.Root
	n, top := x.size, root
	if !op.Commutes() {
		top = 0
	}
	v := (x.rank - top + n) % n
	p := &partial{op: op, acc: x.work(in, in.Len()), tmp: x.work(in, in.Len())}
	const (
		climb = iota
		combine
		forward
		deliver
	)
	state, bit := climb, 1
	mem.Copy(p.acc, in)
	return func(int) (bool, error) {
		for {
			switch state {
			case climb:
				switch {
				case bit >= n:
					state = forward
				case v&bit != 0:
					x.m.Send((v-bit+top)%n, p.acc)
					state = forward
					return true, nil
				case v+bit < n:
					x.m.Recv((v+bit+top)%n, p.tmp)
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
				if top != root && x.rank == top {
					x.m.Send(root, p.acc)
					return true, nil
				}
				if top != root && x.rank == root {
					x.m.Recv(top, p.acc)
					return true, nil
				}
			case deliver:
				if x.rank == root {
					mem.Copy(out, p.acc)
				}
				return false, nil
			}
		}
	}
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
func allreduceDoubling(x *Schedule, call *Call) step {
	in, out, op := call.In, call.Out, call.Op
	acc := x.staged(out)
	p := &partial{op: op, acc: acc, tmp: x.work(in, in.Len())}
	x.unstage(acc, in)
	ranks := foldedOf(x.rank, x.size)
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
	return func(int) (bool, error) {
		for {
			switch state {
			case fold:
				switch {
				case ranks.idle:
					x.m.Send(x.rank+1, p.acc)
					state = unfold
					return true, nil
				case ranks.paired:
					x.m.Recv(x.rank-1, p.tmp)
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
				x.m.Recv(peer, p.tmp)
				x.m.Send(peer, p.acc)
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
					x.m.Recv(x.rank+1, p.acc)
					return true, nil
				case ranks.paired:
					x.m.Send(x.rank-1, p.acc)
					return true, nil
				}
			case end:
				x.unstage(out, p.acc)
				return false, nil
			}
		}
	}
}

// scanDoubling: In round k each rank has the result of the 2^k ranks up to itself, sends it 2^k ahead and puts what
// it gets before its own.
func scanDoubling(x *Schedule, call *Call) step {
	in, out, op := call.In, call.Out, call.Op
	acc := x.staged(out)
	p := &partial{op: op, acc: acc, tmp: x.work(in, in.Len())}
	x.unstage(acc, in)
	return func(i int) (bool, error) {
		if i > 0 && x.rank >= 1<<(i-1) {
			if err := p.below(); err != nil {
				return false, err
			}
		}
		dist := 1 << i
		if dist >= x.size {
			x.unstage(out, p.acc)
			return false, nil
		}
		if x.rank >= dist {
			x.m.Recv(x.rank-dist, p.tmp)
		}
		if x.rank+dist < x.size {
			x.m.Send(x.rank+dist, p.acc)
		}
		return true, nil
	}
}

// allreduceHalves: as allreduceDoubling, and with the same bits, but in each round a pair of ranks shares what it has: each gives
// the other one half, and combines the other half. Then the halves come back, in the opposite order.
func allreduceHalves(x *Schedule, call *Call) step {
	in, out, op := call.In, call.Out, call.Op
	acc := x.staged(out)
	tmp := x.work(in, in.Len())
	x.unstage(acc, in)
	ranks := foldedOf(x.rank, x.size)
	me := ranks.me
	combine := func(lo, hi int, above bool) error {
		mine, other := acc.Slice(lo, hi), tmp.Slice(lo, hi)
		if !above || op.Commutes() {
			return op.Apply(other, mine)
		}
		if err := op.Apply(mine, other); err != nil {
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
	return func(int) (bool, error) {
		for {
			switch state {
			case fold:
				switch {
				case ranks.idle:
					x.m.Send(x.rank+1, acc)
					state = unfold
					return true, nil
				case ranks.paired:
					x.m.Recv(x.rank-1, tmp)
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
					x.m.Recv(peer, tmp.Slice(lo, hi))
					x.m.Send(peer, acc.Slice(s.mid, s.hi))
				} else {
					lo = s.mid
					x.m.Recv(peer, tmp.Slice(lo, hi))
					x.m.Send(peer, acc.Slice(s.lo, s.mid))
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
					x.m.Recv(peer, acc.Slice(s.mid, s.hi))
				} else {
					x.m.Recv(peer, acc.Slice(s.lo, s.mid))
				}
				x.m.Send(peer, acc.Slice(lo, hi))
				lo, hi = s.lo, s.hi
				return true, nil
			case unfold:
				state = end
				switch {
				case ranks.idle:
					x.m.Recv(x.rank+1, acc)
					return true, nil
				case ranks.paired:
					x.m.Send(x.rank-1, acc)
					return true, nil
				}
			case end:
				x.unstage(out, acc)
				return false, nil
			}
		}
	}
}
