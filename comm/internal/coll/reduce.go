// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"math/bits"

	"weft/comm/internal/mem"
)

// Reductions. All ranks combine in an order that depends only on the number of ranks and the root,
// never on time, so float results have the same bits in every run. If the operator does not
// commute, partial results always span consecutive ranks.

// partial is a partial result and the memory to receive another.
type partial struct {
	op       *Operator
	acc, tmp mem.Buffer
}

// combineHigher combines acc with the partial result of higher ranks in tmp.
func (p *partial) combineHigher() error {
	if p.op.Commutes() {
		return p.op.Apply(p.tmp, p.acc)
	}
	err := p.op.Apply(p.acc, p.tmp)
	p.acc, p.tmp = p.tmp, p.acc
	return err
}

// combineLower combines acc with the partial result of lower ranks in tmp.
func (p *partial) combineLower() error { return p.op.Apply(p.tmp, p.acc) }

// reduceTree is a binomial tree. Rank v receives from v plus each bit below its lowest bit, then
// sends to v without its lowest bit. v counts from the root. If the operator does not commute, v
// counts from rank 0, and rank 0 sends the result to the root at the end.
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
				if err := p.combineHigher(); err != nil {
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

// foldedRanks numbers ranks so that a power of two of them take part. The first ranks form pairs.
// The lower rank of a pair is idle: it gives its value to the upper one before the first round, and
// gets the result after the last round.
type foldedRanks struct {
	pow, extra   int // how many ranks take part; how many pairs there are
	me           int // this rank's number, or its partner's, among those that take part
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

// rankOf returns the rank of a number.
func (f *foldedRanks) rankOf(number int) int {
	if number < f.extra {
		return 2*number + 1
	}
	return number + f.extra
}

// rounds runs the rounds of a collective on foldedRanks.
type rounds struct {
	x *Schedule
	partial
	foldedRanks
	out   mem.Buffer
	state int
	bit   int  // of this round: the partner's number differs in it
	begun bool // there was a round

	// round combines what the previous round has received, and reports whether it has started
	// transfers. If not, the rounds are over.
	round func() (bool, error)
}

func newRounds(x *Schedule, call *Call) *rounds {
	r := &rounds{x: x, out: call.Out, foldedRanks: foldedOf(x.rank, x.size), bit: 1}
	r.partial = partial{op: call.Op, acc: x.contiguous(call.Out), tmp: x.work(call.In, call.In.Len())}
	x.move(r.acc, call.In)
	return r
}

func (r *rounds) step(int) (bool, error) {
	const (
		fold = iota
		folded
		exchange
		unfold
		end
	)
	for {
		switch r.state {
		case fold:
			switch {
			case r.idle:
				r.x.m.Send(r.x.rank+1, r.acc)
				r.state = unfold
				return true, nil
			case r.paired:
				r.x.m.Recv(r.x.rank-1, r.tmp)
				r.state = folded
				return true, nil
			}
			r.state = exchange
		case folded:
			if err := r.combineLower(); err != nil {
				return false, err
			}
			r.state = exchange
		case exchange:
			if more, err := r.round(); more || err != nil {
				return more, err
			}
			r.state = unfold
		case unfold:
			r.state = end
			switch {
			case r.idle:
				r.x.m.Recv(r.x.rank+1, r.acc)
				return true, nil
			case r.paired:
				r.x.m.Send(r.x.rank-1, r.acc)
				return true, nil
			}
		case end:
			r.x.move(r.out, r.acc)
			return false, nil
		}
	}
}

// partner returns the rank with which a round exchanges.
func (r *rounds) partner() int { return r.rankOf(r.me ^ r.bit) }

// allreduceDoubling is recursive doubling over the largest power of two that is not above the
// number of ranks.
func allreduceDoubling(x *Schedule, call *Call) step {
	r := newRounds(x, call)
	r.round = func() (bool, error) {
		if r.begun {
			combine := r.combineHigher
			if r.me&r.bit != 0 {
				combine = r.combineLower
			}
			if err := combine(); err != nil {
				return false, err
			}
			r.bit <<= 1
		}
		if r.bit >= r.pow {
			return false, nil
		}
		r.x.m.Recv(r.partner(), r.tmp)
		r.x.m.Send(r.partner(), r.acc)
		r.begun = true
		return true, nil
	}
	return r.step
}

// scanDoubling: in round k each rank has the result of the 2^k ranks up to itself. It sends that to
// the rank 2^k above, and combines what it receives with its own, in this order.
func scanDoubling(x *Schedule, call *Call) step {
	in, out, op := call.In, call.Out, call.Op
	acc := x.contiguous(out)
	p := &partial{op: op, acc: acc, tmp: x.work(in, in.Len())}
	x.move(acc, in)
	return func(i int) (bool, error) {
		if i > 0 && x.rank >= 1<<(i-1) {
			if err := p.combineLower(); err != nil {
				return false, err
			}
		}
		dist := 1 << i
		if dist >= x.size {
			x.move(out, p.acc)
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

// allreduceHalves computes the same bits as allreduceDoubling. In each round the two ranks of a
// pair halve their range: each sends one half to the other rank, and combines the other half. Then
// they exchange the results of the halves, in the opposite order of rounds.
func allreduceHalves(x *Schedule, call *Call) step {
	type split struct{ lo, hi, mid int }
	var s struct {
		all          []split
		lo, hi       int
		halved, back bool
	}
	r := newRounds(x, call)
	s.hi = r.acc.Len()
	combine := func(above bool) error {
		mine, other := r.acc.Slice(s.lo, s.hi), r.tmp.Slice(s.lo, s.hi)
		if !above || r.op.Commutes() {
			return r.op.Apply(other, mine)
		}
		if err := r.op.Apply(mine, other); err != nil {
			return err
		}
		mem.Copy(mine, other)
		return nil
	}
	r.round = func() (bool, error) {
		if s.halved {
			if err := combine(r.me&r.bit == 0); err != nil {
				return false, err
			}
			r.bit <<= 1
		}
		if s.halved = !s.back && r.bit < r.pow; s.halved {
			half := split{s.lo, s.hi, s.lo + (s.hi-s.lo)/2}
			s.all = append(s.all, half)
			theirs := r.acc.Slice(half.mid, s.hi)
			if r.me&r.bit == 0 {
				s.hi = half.mid
			} else {
				s.lo, theirs = half.mid, r.acc.Slice(s.lo, half.mid)
			}
			r.x.m.Recv(r.partner(), r.tmp.Slice(s.lo, s.hi))
			r.x.m.Send(r.partner(), theirs)
			return true, nil
		}
		s.back = true
		n := len(s.all) - 1
		if n < 0 {
			return false, nil
		}
		half := s.all[n]
		s.all = s.all[:n]
		r.bit >>= 1
		if r.me&r.bit == 0 {
			r.x.m.Recv(r.partner(), r.acc.Slice(half.mid, half.hi))
		} else {
			r.x.m.Recv(r.partner(), r.acc.Slice(half.lo, half.mid))
		}
		r.x.m.Send(r.partner(), r.acc.Slice(s.lo, s.hi))
		s.lo, s.hi = half.lo, half.hi
		return true, nil
	}
	return r.step
}
