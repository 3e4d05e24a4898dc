// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"fmt"
	"runtime"
	"testing"

	"weft/comm/internal/smcoll"

	"github.com/stretchr/testify/require"
)

// layout is memory with a payload of n bytes in blocks, and gaps between them.
type layout struct {
	mem        []byte
	block, gap int
	n          int
}

// layouts are whole memory, single bytes, and blocks of four.
func layouts(n int) (all []layout) {
	for _, x := range []struct{ block, gap int }{{n, 0}, {1, 1}, {4, 3}} {
		if x.block > 0 && n%x.block == 0 {
			l := layout{block: x.block, gap: x.gap, n: n}
			l.mem = make([]byte, n/x.block*(x.block+x.gap))
			all = append(all, l)
		}
	}
	return all
}

func (l layout) buffer() Buffer { return Vector(l.mem, l.n/l.block, l.block, l.block+l.gap) }

// fill sets the payload by its index, and the gaps to 0xee.
func (l layout) fill(f func(i int) byte) {
	for at := range l.mem {
		l.mem[at] = 0xee
		if k := at % (l.block + l.gap); k < l.block {
			l.mem[at] = f(at/(l.block+l.gap)*l.block + k)
		}
	}
}

func (l layout) check(what string, f func(i int) byte) error {
	for at, got := range l.mem {
		want := byte(0xee)
		if k := at % (l.block + l.gap); k < l.block {
			want = f(at/(l.block+l.gap)*l.block + k)
		}
		if got != want {
			return fmt.Errorf("%s of %d bytes in blocks of %d: byte %d is %d, want %d", what, l.n, l.block, at, got, want)
		}
	}
	return nil
}

// Collectives of parts of sizes around the room of a slot, in every layout.
func TestSmallPartsInEveryLayout(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 72, 108, 112, smcoll.DataMax - 1, smcoll.DataMax, smcoll.DataMax + 1, smcoll.DataMax - 1, smcoll.DataMax, smcoll.DataMax + 1, 300}
	for how, run := range runners {
		for _, ranks := range []int{2, 3, 4} {
			require.NoError(t, run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error { return inEveryLayout(c, sizes) }), "%s, %d ranks", how, ranks)
		}
	}
}

// inEveryLayout makes collectives of parts of these sizes in every layout, in place and not: the
// payload is right, and the gaps keep their contents.
func inEveryLayout(c *Comm, sizes []int) error {
	p, me := c.Size(), c.Rank()
	of := func(r, i int) byte { return byte(r*50 + i*7 + 1) }
	mine := func(i int) byte { return of(me, i) }
	junk := func(int) byte { return 0xdd }
	upTo := func(last int) func(i int) byte {
		return func(i int) (sum byte) {
			for r := range last + 1 {
				sum += of(r, i)
			}
			return sum
		}
	}
	for _, n := range sizes {
		ins, outs, wides := layouts(n), layouts(n), layouts(n*p)
		for k, in := range ins {
			for j := range outs {
				// ranks have layouts of their own
				out, wide, root := outs[(j+me)%len(outs)], wides[(j+k+me)%len(wides)], (n+j)%p
				reset := func() {
					in.fill(mine)
					out.fill(junk)
					wide.fill(junk)
				}
				reset()
				err := cmp.Or(c.Allreduce(in.buffer(), out.buffer(), Sum), out.check("allreduce", upTo(p-1)), in.check("its input", mine),
					c.Scan(in.buffer(), out.buffer(), Sum), out.check("scan", upTo(me)))
				reset()
				want := junk
				if me == root {
					want = upTo(p - 1)
				}
				err = cmp.Or(err, c.Reduce(in.buffer(), out.buffer(), Sum, root), out.check("reduce", want),
					c.Scan(in.buffer(), in.buffer(), Sum), in.check("scan in place", upTo(me)))
				reset()
				err = cmp.Or(err, c.Allreduce(in.buffer(), in.buffer(), Sum), in.check("allreduce in place", upTo(p-1)))
				reset()
				err = cmp.Or(err, c.Bcast(in.buffer(), root), in.check("bcast", func(i int) byte { return of(root, i) }))
				reset()
				all := func(i int) byte { return of(i/n, i%n) }
				err = cmp.Or(err, c.Allgather(in.buffer(), wide.buffer()), wide.check("allgather", all))
				wide.fill(junk)
				if want = junk; me == root {
					want = all
				}
				err = cmp.Or(err, c.Gather(in.buffer(), wide.buffer(), root), wide.check("gather", want))
				wide.fill(all)
				err = cmp.Or(err, c.Scatter(wide.buffer(), out.buffer(), root), out.check("scatter", mine), wide.check("what is scattered", all))
				other := wides[(j+1)%len(wides)]
				if &other.mem[0] != &wide.mem[0] {
					wide.fill(func(i int) byte { return of(me*p+i/n, i%n) })
					other.fill(junk)
					err = cmp.Or(err, c.Alltoall(wide.buffer(), other.buffer()), other.check("alltoall", func(i int) byte { return of(i/n*p+me, i%n) }))
				} else {
					other = layouts(n * p)[0]
					wide.fill(func(i int) byte { return of(me*p+i/n, i%n) })
					err = cmp.Or(err, c.Alltoall(wide.buffer(), other.buffer()), other.check("alltoall", func(i int) byte { return of(i/n*p+me, i%n) }))
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// An operator that leaves its goroutine, instead of returning, ends the reduction at all ranks in
// shared memory.
func TestOperatorThatLeaves(t *testing.T) {
	for _, how := range []string{"together", "apart, shm"} {
		// by messages, it may be called on the goroutine of another rank
		run := runners[how]
		if run == nil {
			continue // no shared memory here
		}
		for _, n := range []int{1, 3000, 100_000} {
			err := run(t.Context(), Config{Ranks: 3}, func(c *Comm) error {
				leaves := OpFunc(true, func(_, _ []int) { runtime.Goexit() })
				return c.Allreduce(Of(make([]int, n)), Of(make([]int, n)), leaves)
			})
			require.Error(t, err, "%s, %d elements", how, n)
			requireNoRankGoroutines(t)
		}
	}
}

// A reduction that fails leaves strided memory as it was. Its working memory was used by other
// collectives before.
func TestFailedReductionIntoStridedMemory(t *testing.T) {
	for how, run := range runners {
		for _, ranks := range []int{2, 3} {
			_ = run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
				for range 20 { // fills that memory
					if err := c.Allreduce(Of([]int{1, 2, 3}), Vector(make([]int, 6), 3, 1, 2), Sum); err != nil {
						return err
					}
				}
				panics := OpFunc(true, func(_, _ []int) { panic("test") })
				m := []int{7, 7, 7, 7, 7, 7}
				err := c.Allreduce(Of([]int{1, 2, 3}), Vector(m, 3, 1, 2), panics)
				if err == nil || fmt.Sprint(m) != "[7 7 7 7 7 7]" {
					t.Errorf("%s, rank %d of %d: %v, %v", how, c.Rank(), ranks, m, err)
				}
				return err
			})
		}
	}
}

// Combining nothing with nothing works for every kind.
func TestOperatorsOnNothing(t *testing.T) {
	called := OpFunc(true, func(_, _ []int64) { t.Error("called") })
	for _, op := range []Op{Sum, Min, Max, Prod, called} {
		none := []int64{}
		require.NoError(t, op.Apply(Of(none), Of(none)))
		require.NoError(t, op.Apply(Vector(none, 0, 5, 9), Vector([]int64{1}, 1, 0, 0)))
		require.NoError(t, op.Apply(Buffer{}, Buffer{}))
	}
}

// The errors of Apply for bad arguments, and its result for the first good ones.
func TestOperatorArguments(t *testing.T) {
	wide, x := make([]int64, 9), []int64{1, 2, 3}
	own := OpFunc(true, func(in, inout []int64) {})
	for says, err := range map[string]error{
		"sum of 3 and 2 elements; both must be contiguous":                       Sum.Apply(Of(x), Of(x[:2])),
		"sum of 2 and 3 elements":                                                Sum.Apply(Of(x[:2]), Of(x)),
		"max of 3 and 3 elements":                                                Max.Apply(Vector(wide, 3, 1, 2), Of(x)),
		"min of 3 and 3 elements":                                                Min.Apply(Of(x), Vector(wide, 3, 1, 2)),
		"message of int64 (8 bytes) where float64":                               Sum.Apply(Of(x), Of(make([]float64, 3))),
		"sum is not defined for bool elements":                                   Sum.Apply(Of([]bool{true}), Of([]bool{true})),
		"user operator on int64 applied to uint64 elements":                      own.Apply(Of([]uint64{1}), Of([]uint64{1})),
		"the operator is the zero Op":                                            Op{}.Apply(Of(x), Of(x)),
		"user operator on int64 without a function":                              OpFunc[int64](true, nil).Apply(Of(x), Of(x)),
		"vector of 3 blocks of 1 elements with stride 9 in a slice of 9 element": Sum.Apply(Vector(wide, 3, 1, 9), Of(x)),
		"vector of 4 blocks of 1 elements with stride 9 in a slice of 9 element": Sum.Apply(Of(x), Vector(wide, 4, 1, 9)),
	} {
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, own.Apply(Of(x), Of(x)))
	require.Equal(t, "no operator", Op{}.String())
	require.Equal(t, "prod", Prod.String())
	require.False(t, Op{}.Commutes())
	require.True(t, own.Commutes())
	require.False(t, OpFunc(false, func(in, inout []int64) {}).Commutes())
}
