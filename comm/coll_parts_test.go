// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"runtime"
	"testing"

	"weft/comm/internal/mem"

	"github.com/stretchr/testify/require"
)

// layout is memory with a payload of n bytes in blocks, and what is between them.
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

// fill sets the payload by its index, and all between to 0xee.
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

// Collectives of parts of each size about what a place has room for, in every layout.
func TestSmallPartsInEveryLayout(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 72, 108, 112, inlineMax - 1, inlineMax, inlineMax + 1, boardData - 1, boardData, boardData + 1, 300}
	for how, run := range runners {
		for _, ranks := range []int{2, 3, 4} {
			require.NoError(t, run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error { return inEveryLayout(c, sizes) }), "%s, %d ranks", how, ranks)
		}
	}
}

// inEveryLayout makes collectives of parts of these sizes in whatever layout the memory has, in place and not: the payload
// is right, and what is between its blocks is left alone.
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
				out, wide, root := outs[(j+me)%len(outs)], wides[(j+k+me)%len(wides)], (n+j)%p // ranks have layouts of their own
				reset := func() {
					in.fill(mine)
					out.fill(junk)
					wide.fill(junk)
				}
				reset()
				err := firstError(c.Allreduce(in.buffer(), out.buffer(), Sum), out.check("allreduce", upTo(p-1)), in.check("its input", mine),
					c.Scan(in.buffer(), out.buffer(), Sum), out.check("scan", upTo(me)))
				reset()
				want := junk
				if me == root {
					want = upTo(p - 1)
				}
				err = firstError(err, c.Reduce(in.buffer(), out.buffer(), Sum, root), out.check("reduce", want),
					c.Scan(in.buffer(), in.buffer(), Sum), in.check("scan in place", upTo(me)))
				reset()
				err = firstError(err, c.Allreduce(in.buffer(), in.buffer(), Sum), in.check("allreduce in place", upTo(p-1)))
				reset()
				err = firstError(err, c.Bcast(in.buffer(), root), in.check("bcast", func(i int) byte { return of(root, i) }))
				reset()
				all := func(i int) byte { return of(i/n, i%n) }
				err = firstError(err, c.Allgather(in.buffer(), wide.buffer()), wide.check("allgather", all))
				wide.fill(junk)
				if want = junk; me == root {
					want = all
				}
				err = firstError(err, c.Gather(in.buffer(), wide.buffer(), root), wide.check("gather", want))
				wide.fill(all)
				err = firstError(err, c.Scatter(wide.buffer(), out.buffer(), root), out.check("scatter", mine), wide.check("what is scattered", all))
				other := wides[(j+1)%len(wides)]
				if &other.mem[0] != &wide.mem[0] {
					wide.fill(func(i int) byte { return of(me*p+i/n, i%n) })
					other.fill(junk)
					err = firstError(err, c.Alltoall(wide.buffer(), other.buffer()), other.check("alltoall", func(i int) byte { return of(i/n*p+me, i%n) }))
				} else {
					other = layouts(n * p)[0]
					wide.fill(func(i int) byte { return of(me*p+i/n, i%n) })
					err = firstError(err, c.Alltoall(wide.buffer(), other.buffer()), other.check("alltoall", func(i int) byte { return of(i/n*p+me, i%n) }))
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// An operator that leaves its goroutine, instead of returning, ends the reduction at all ranks that
// meet for it.
func TestOperatorThatLeaves(t *testing.T) {
	for _, how := range []string{"together", "apart, shm"} { // by messages, it may be called on the goroutine of another rank
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

// A reduction that fails leaves strided memory as it was. What it has combined lies in memory that
// other collectives have used before.
func TestFailedReductionIntoStridedMemory(t *testing.T) {
	for how, run := range runners {
		for _, ranks := range []int{2, 3} {
			_ = run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
				for range 20 { // what they leave
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

// Nothing of any kind is combined with nothing.
func TestOperatorsOnNothing(t *testing.T) {
	called := OpFunc(true, func(_, _ []int64) { t.Error("called") })
	for _, op := range []Op{Sum, Min, Max, Prod, called} {
		none := []int64{}
		require.NoError(t, op.Apply(Of(none), Of(none)))
		require.NoError(t, op.Apply(Vector(none, 0, 5, 9), Vector([]int64{1}, 1, 0, 0)))
		require.NoError(t, op.Apply(Buffer{}, Buffer{}))
		require.NoError(t, op.combine(Of(none).b, Of(none).b, Of(none).b))
		require.NoError(t, op.combine(Buffer{}.b, Buffer{}.b, Buffer{}.b))
	}
}

// What Apply refuses, with what is wrong, and what it does with the first that it does not.
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

// What collectives say of buffers that do not fit, and of roots that are none.
func TestShapesAreChecked(t *testing.T) {
	b := func(n int) Buffer { return Of(make([]int64, n)) }
	require.NoError(t, checkShape(b(2).b, b(6).b, 3, "x"))
	require.NoError(t, checkShape(b(0).b, Of([]byte{}).b, 3, "x"), "nothing of whatever kind")
	require.NoError(t, checkShape(Buffer{}.b, Buffer{}.b, 3, "x"))
	require.ErrorContains(t, checkShape(b(2).b, b(5).b, 3, "x"), "x of 5 elements, where 3 times 2 are needed")
	require.ErrorContains(t, checkShape(b(2).b, b(7).b, 3, "x"), "x of 7 elements")
	require.ErrorContains(t, checkShape(b(2).b, Of(make([]uint64, 6)).b, 3, "x"), "message of int64 (8 bytes) where uint64 (8 bytes) is expected")
	require.ErrorContains(t, checkShape(Of([]cell{{}}).b, Of([][3]int64{{}}).b, 1, "x"), "(24 bytes)")
	require.ErrorIs(t, checkShape(b(1).b, Of([]cell{{}}).b, 1, "x"), ErrType)
	require.ErrorContains(t, errNotDivisible(5, 3), "5 elements are not a multiple of 3 ranks")
	c := &Comm{size: 3}
	for root, good := range map[int]bool{-1: false, 0: true, 2: true, 3: false} {
		require.Equal(t, good, c.checkRoot(root) == nil, root)
	}
	require.ErrorContains(t, c.checkRoot(3), "root 3; this communicator has ranks 0 to 2")
	require.NoError(t, firstError())
	require.NoError(t, firstError(nil, nil))
	require.Equal(t, errTest, firstError(nil, errTest, ErrRank))
}

// Working memory is for what is in pieces; what is whole is used where it is.
func TestStagedBuffers(t *testing.T) {
	c, _ := lone(t, 0, 2)
	x := c.newColl(collID{seq: 1, what: newCollective(barrier, Op{}, -1)})
	m := make([]int64, 10)
	for _, b := range []Buffer{Of(m), Of(m[:1]), Of(m[:0]), {}} {
		require.True(t, mem.SameMemory(b.b, x.staged(b.b)))
	}
	require.Empty(t, x.blocks)
	s := x.staged(Vector(m, 5, 1, 2).b)
	require.False(t, mem.SameMemory(Of(m).b, s))
	require.Equal(t, 5, s.Len())
	require.Len(t, x.blocks, 1)
	whole, ok := s.Contiguous()
	require.True(t, ok)
	require.Len(t, whole, 40)

	// A copy to where it belongs, unless it is there.
	mem.Copy(s, mem.Of([]int64{1, 2, 3, 4, 5}))
	x.unstage(Vector(m, 5, 1, 2).b, s)
	require.Equal(t, []int64{1, 0, 2, 0, 3, 0, 4, 0, 5, 0}, m)
	other := mem.Of([]int64{9, 9})
	x.unstage(other, other)
	x.finish()
	require.Empty(t, x.blocks)
	require.NoError(t, wait(&x.Request))
}
