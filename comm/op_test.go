// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/vec"
)

func testOps[T vec.Ordered](t *testing.T) {
	for _, x := range []struct {
		op   Op
		want []T
	}{{Sum, []T{5, 9}}, {Prod, []T{6, 20}}, {Min, []T{2, 4}}, {Max, []T{3, 5}}} {
		in, inout := []T{2, 5}, []T{3, 4}
		require.NoError(t, x.op.Apply(Of(in), Of(inout)))
		require.Equal(t, x.want, inout, "%v of %T", x.op, in)
		require.Equal(t, []T{2, 5}, in)
		require.True(t, x.op.Commutes())
	}
}

func TestOps(t *testing.T) {
	testOps[uint8](t)
	testOps[int8](t)
	testOps[int16](t)
	testOps[int32](t)
	testOps[int64](t)
	testOps[uint16](t)
	testOps[uint32](t)
	testOps[uint64](t)
	testOps[float32](t)
	testOps[float64](t)
	testOps[celsius](t)
	n, u := []int{3}, []uint{3}
	require.NoError(t, Sum.Apply(Of([]int{4}), Of(n)))
	require.NoError(t, Prod.Apply(Of([]uint{4}), Of(u)))
	require.Equal(t, []int{7}, n)
	require.Equal(t, []uint{12}, u)
	z := []complex128{2 + 1i}
	require.NoError(t, Sum.Apply(Of([]complex128{1i}), Of(z)))
	require.NoError(t, Prod.Apply(Of([]complex128{1i}), Of(z)))
	require.Equal(t, []complex128{-2 + 2i}, z)
	require.ErrorIs(t, Min.Apply(Of(z), Of(z)), ErrType)
}

func TestOpErrors(t *testing.T) {
	a, b := []int64{1, 2}, []int64{3, 4, 5}
	require.ErrorIs(t, Sum.Apply(Of(a), Of(b)), ErrBuffer)
	require.ErrorIs(t, Sum.Apply(Of(a), Vector(b, 2, 1, 2)), ErrBuffer)
	require.ErrorIs(t, Sum.Apply(Of(a), Of([]float64{1, 2})), ErrType)
	require.ErrorIs(t, Sum.Apply(Of([]cell{{}}), Of([]cell{{}})), ErrType)
	require.ErrorIs(t, Op{}.Apply(Of(a), Of(a)), ErrType)
	require.ErrorIs(t, OpFunc(true, func(in, inout []float64) {}).Apply(Of(a), Of(a)), ErrType)
	require.ErrorIs(t, OpFunc(true, func(in, inout []*int) {}).Apply(Of(a), Of(a)), ErrType)
	require.Equal(t, []int64{1, 2}, a)
	require.NoError(t, Sum.Apply(Buffer{}, Buffer{}))
}

// A user operator that cannot be applied is refused before anything is sent, by one rank as by
// many.
func TestUserOperatorsAreCheckedFirst(t *testing.T) {
	for name, op := range map[string]Op{
		"another type": OpFunc(true, func(in, inout []float32) { t.Error("applied") }),
		"no function":  OpFunc[int](true, nil),
		"pointers":     OpFunc(true, func(in, inout []*int) { t.Error("applied") }),
	} {
		require.ErrorIs(t, op.Apply(Of([]int{1}), Of([]int{2})), ErrType, name)
		for _, ranks := range []int{1, 2, 7} {
			require.NoError(t, Run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
				x := []int{1}
				for what, err := range map[string]error{
					"allreduce": c.Allreduce(Of(x), Of(x), op),
					"reduce":    c.Reduce(Of(x), Of(x), op, 0),
					"scan":      c.Scan(Of(x), Of(x), op),
				} {
					if !errors.Is(err, ErrType) {
						return fmt.Errorf("%s, %s of %d: %v", name, what, ranks, err)
					}
				}
				return c.Barrier()
			}))
		}
	}
}

func TestMinMaxOfNaN(t *testing.T) {
	nan := math.NaN()
	for _, op := range []Op{Min, Max} {
		for _, pair := range [][2]float64{{nan, 1}, {1, nan}} {
			x := []float64{pair[1]}
			require.NoError(t, op.Apply(Of(pair[:1]), Of(x)))
			require.True(t, math.IsNaN(x[0]))
		}
	}
}

func TestInfo(t *testing.T) {
	in := NewInfo("b", "1", "a", "2")
	other := in
	in.Set("b", "3")
	in.Set("c", "4")
	require.Equal(t, []string{"b", "a", "c"}, in.Keys())
	require.Equal(t, "3", in.Get("b"))
	require.Equal(t, "1", other.Get("b"), "copies are independent")
	require.Equal(t, `b="3" a="2" c="4"`, in.String())
	in.Delete("a")
	in.Delete("x")
	require.Equal(t, 2, in.Len())
	_, ok := in.Lookup("a")
	require.False(t, ok)
	require.Empty(t, in.Get("a"))
	require.Equal(t, "2", other.Clone().Get("a"))
	odd := []string{"a"}
	require.Panics(t, func() { NewInfo(odd...) })
}

// An operator's panic is the error of the reduction, with value and stack, in each way to run
// ranks, for small and large operands, whether the caller waits or not.
func TestOperatorPanics(t *testing.T) {
	boom := OpFunc(false, func(_, _ []int) { panic(errTest) })
	reductions := map[string]func(c *Comm, in, out Buffer) error{
		"reduce":     func(c *Comm, in, out Buffer) error { return c.Reduce(in, out, boom, 1) },
		"allreduce":  func(c *Comm, in, out Buffer) error { return c.Allreduce(in, out, boom) },
		"scan":       func(c *Comm, in, out Buffer) error { return c.Scan(in, out, boom) },
		"iallreduce": func(c *Comm, in, out Buffer) error { return wait(c.Iallreduce(in, out, boom)) },
		"iscan":      func(c *Comm, in, out Buffer) error { return wait(c.Iscan(in, out, boom)) },
	}
	for how, run := range runners {
		for name, reduce := range reductions {
			for _, n := range []int{1, 3000, 200_000} {
				err := run(context.Background(), Config{Ranks: 3}, func(c *Comm) error {
					if err := reduce(c, Of(make([]int, n)), Of(make([]int, n))); err != nil {
						return err
					}
					// ends with the run, or because the operator has not run here
					return c.Barrier()
				})
				what := fmt.Sprintf("%s, %s of %d", how, name, n)
				var p *PanicError
				require.ErrorAs(t, err, &p, what)
				require.Contains(t, fmt.Sprint(p.Value), errTest.Error(), what)
				require.Contains(t, string(p.Stack), "TestOperatorPanics", what)
				requireNoRankGoroutines(t)
			}
		}
	}
}
