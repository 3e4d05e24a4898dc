// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// value is element i of rank r's input.
func value(r, i int) int64 { return int64(r+1)*1000 + int64(i) }

func inputs(r, n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = value(r, i)
	}
	return s
}

// sizes reach from nothing to beyond the eager limit.
var sizes = []int{0, 1, 3, 2500}

func TestCollectives(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 5, 7, 8, 9} {
		for _, n := range sizes {
			if ranks > 5 && n > 1000 {
				continue // the sizes matter to the protocol, not to the schedules
			}
			t.Run(fmt.Sprintf("%d ranks, %d elements", ranks, n), func(t *testing.T) {
				run(t, ranks, func(c *Comm) error { return checkCollectives(c, n) })
			})
		}
	}
}

func checkCollectives(c *Comm, n int) error {
	p, me := c.Size(), c.Rank()
	all := func(f func(r, i int) int64) (out []int64) {
		for r := range p {
			for i := range n {
				out = append(out, f(r, i))
			}
		}
		return out
	}
	in := inputs(me, n)
	orig := slices.Clone(in)
	for root := range p {
		buf := make([]int64, n)
		if me == root {
			copy(buf, in)
		}
		if err := cmp.Or(c.Bcast(Of(buf), root), expectSlice("bcast", inputs(root, n), buf)); err != nil {
			return err
		}
		out := make([]int64, n)
		for _, op := range []Op{Sum, Min, Max} {
			if err := c.Reduce(Of(in), Of(out), op, root); err != nil {
				return err
			}
			if me == root {
				if err := expectSlice("reduce "+op.String(), reduced(op, 0, p, n), out); err != nil {
					return err
				}
			}
		}
		gathered := make([]int64, p*n)
		if err := c.Gather(Of(in), Of(gathered), root); err != nil {
			return err
		}
		if me == root {
			if err := expectSlice("gather", all(value), gathered); err != nil {
				return err
			}
		}
		part := make([]int64, n)
		if err := cmp.Or(c.Scatter(Of(gathered), Of(part), root), expectSlice("scatter", in, part)); err != nil {
			return err
		}
	}
	out := make([]int64, n)
	for _, op := range []Op{Sum, Min, Max} {
		if err := cmp.Or(c.Allreduce(Of(in), Of(out), op), expectSlice("allreduce "+op.String(), reduced(op, 0, p, n), out)); err != nil {
			return err
		}
		if err := cmp.Or(c.Scan(Of(in), Of(out), op), expectSlice("scan "+op.String(), reduced(op, 0, me+1, n), out)); err != nil {
			return err
		}
	}
	gathered := make([]int64, p*n)
	if err := cmp.Or(c.Allgather(Of(in), Of(gathered)), expectSlice("allgather", all(value), gathered)); err != nil {
		return err
	}
	for r := range p {
		for i := range n {
			gathered[r*n+i] = int64(me*100+r)<<20 + int64(i)
		}
	}
	swapped := make([]int64, p*n)
	want := all(func(r, i int) int64 { return int64(r*100+me)<<20 + int64(i) })
	if err := cmp.Or(c.Alltoall(Of(gathered), Of(swapped)), expectSlice("alltoall", want, swapped)); err != nil {
		return err
	}
	if err := cmp.Or(c.Alltoall(Of(gathered), Of(gathered)), expectSlice("alltoall in place", want, gathered)); err != nil {
		return err
	}
	if err := expectSlice("the input afterwards", orig, in); err != nil {
		return err
	}
	// In place.
	if err := cmp.Or(c.Scan(Of(in), Of(in), Sum), expectSlice("scan in place", reduced(Sum, 0, me+1, n), in)); err != nil {
		return err
	}
	copy(in, orig)
	if err := cmp.Or(c.Allreduce(Of(in), Of(in), Sum), expectSlice("allreduce in place", reduced(Sum, 0, p, n), in)); err != nil {
		return err
	}
	copy(gathered[me*n:], orig)
	if err := cmp.Or(c.Allgather(Of(gathered[me*n:(me+1)*n]), Of(gathered)), expectSlice("allgather in place", all(value), gathered)); err != nil {
		return err
	}
	return c.Barrier()
}

// reduced is the expected combination of ranks lo to hi-1.
func reduced(op Op, lo, hi, n int) []int64 {
	out := inputs(lo, n)
	for r := lo + 1; r < hi; r++ {
		for i := range out {
			switch op {
			case Sum:
				out[i] += value(r, i)
			case Min:
				out[i] = min(out[i], value(r, i))
			case Max:
				out[i] = max(out[i], value(r, i))
			}
		}
	}
	return out
}

// affine is x → a*x + b; composition is associative and does not commute.
type affine struct{ A, B uint32 }

func compose(in, inout []affine) {
	for i, f := range in {
		g := inout[i]
		inout[i] = affine{f.A * g.A, f.A*g.B + f.B} // f after g
	}
}

func TestUserOperatorInRankOrder(t *testing.T) {
	op := OpFunc(false, compose)
	require.False(t, op.Commutes())
	for ranks := 1; ranks <= 9; ranks++ {
		for _, n := range []int{1, 7, 5000} {
			run(t, ranks, func(c *Comm) error {
				in := make([]affine, n)
				want := make([]affine, n)
				upTo := make([]affine, n)
				for i := range n {
					f := func(r int) affine { return affine{uint32(2*r + 3), uint32(r + i)} }
					in[i] = f(c.Rank())
					acc := f(c.Size() - 1)
					for r := c.Size() - 2; r >= 0; r-- {
						a := []affine{acc}
						compose([]affine{f(r)}, a)
						acc = a[0]
					}
					want[i] = acc
					acc = f(c.Rank())
					for r := c.Rank() - 1; r >= 0; r-- {
						a := []affine{acc}
						compose([]affine{f(r)}, a)
						acc = a[0]
					}
					upTo[i] = acc
				}
				out := make([]affine, n)
				if err := cmp.Or(c.Allreduce(Of(in), Of(out), op), expectSlice("allreduce", want, out)); err != nil {
					return err
				}
				if err := cmp.Or(c.Scan(Of(in), Of(out), op), expectSlice("scan", upTo, out)); err != nil {
					return err
				}
				for root := range c.Size() {
					clear(out)
					if err := c.Reduce(Of(in), Of(out), op, root); err != nil {
						return err
					}
					if c.Rank() == root {
						if err := expectSlice("reduce", want, out); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
	}
}

func TestFloatReductionsHaveTheSameBits(t *testing.T) {
	for _, ranks := range []int{3, 5, 8} {
		var first []float64
		for range 5 {
			results := make([][]float64, ranks)
			run(t, ranks, func(c *Comm) error {
				rng := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
				in := make([]float64, 50)
				for i := range in {
					in[i] = rng.NormFloat64() * 1e8
				}
				results[c.Rank()] = make([]float64, 50)
				return c.Allreduce(Of(in), Of(results[c.Rank()]), Sum)
			})
			for _, r := range results {
				require.Equal(t, results[0], r, "all ranks have the same bits")
			}
			if first == nil {
				first = results[0]
			}
			require.Equal(t, first, results[0], "all runs have the same bits")
		}
	}
}

// Many collectives at once, on several communicators, completed in any order.
func TestManyCollectivesAtOnce(t *testing.T) {
	run(t, 5, func(c *Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		const n = 50
		var reqs []*Request
		sums := make([]int, 2*n)
		for i := range n {
			in := []int{c.Rank() + i}
			in2 := []int{c.Rank() * i}
			reqs = append(reqs, c.Iallreduce(Of(in), Of(sums[i:i+1]), Sum), c.Ibarrier(), d.Iallreduce(Of(in2), Of(sums[n+i:n+i+1]), Sum))
		}
		for len(reqs) > 0 {
			k := (c.Rank() * 7) % len(reqs)
			if _, err := reqs[k].Wait(context.Background()); err != nil {
				return err
			}
			reqs = slices.Delete(reqs, k, k+1)
		}
		for i := range n {
			if err := cmp.Or(expect("sum", 10+5*i, sums[i]), expect("sum of dup", 10*i, sums[n+i])); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestSplit(t *testing.T) {
	run(t, 7, func(c *Comm) error {
		color := c.Rank() % 3
		if c.Rank() == 6 {
			color = Undefined
		}
		s, err := c.Split(color, -c.Rank())
		if err != nil {
			return err
		}
		if color == Undefined {
			return expect("communicator of no colour", true, s == nil)
		}
		if err := cmp.Or(expect("size", 2, s.Size()), expect("rank", 1-c.Rank()/3, s.Rank())); err != nil {
			return err
		}
		in, out := []int{c.Rank()}, make([]int, 2)
		if err := s.Allgather(Of(in), Of(out)); err != nil {
			return err
		}
		if err := expectSlice("members", []int{color + 3, color}, out); err != nil {
			return err
		}
		// A message on one communicator is not seen by a receive on another.
		d, err := s.Dup()
		if err != nil {
			return err
		}
		other := 1 - s.Rank()
		a, b := []int{1}, []int{2}
		ra, rb := s.Isend(Of(a), other, 5), d.Isend(Of(b), other, 5)
		var x, y int
		xs, ys := []int{0}, []int{0}
		if _, err := d.Recv(Of(ys), AnySource, AnyTag); err != nil {
			return err
		}
		if _, err := s.Recv(Of(xs), AnySource, AnyTag); err != nil {
			return err
		}
		x, y = xs[0], ys[0]
		return cmp.Or(expect("on split", 1, x), expect("on dup", 2, y), WaitAll(c.Context(), ra, rb))
	})
}

func TestCollectiveArguments(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		four, five := Of(make([]int, 4)), Of(make([]int, 5))
		for _, x := range []struct {
			name string
			err  error
			want error
		}{
			{"root", c.Bcast(four, 2), ErrRank},
			{"negative root", c.Reduce(four, four, Sum, -1), ErrRank},
			{"length", c.Allreduce(four, five, Sum), ErrBuffer},
			{"type", c.Allreduce(four, Of(make([]float64, 4)), Sum), ErrType},
			{"gathered length", c.Allgather(four, five), ErrBuffer},
			{"not divisible", c.Alltoall(five, five), ErrBuffer},
			{"operator of type", c.Scan(Of([]bool{true}), Of([]bool{true}), Sum), ErrType},
			{"no operator", c.Scan(four, four, Op{}), ErrType},
			{"pointers", c.Bcast(Of(make([]*int, 1)), 0), ErrType},
		} {
			if !requireIs(x.err, x.want) {
				return fmt.Errorf("%s: %v, want %v", x.name, x.err, x.want)
			}
		}
		return c.Barrier() // nothing has been lost
	})
}
