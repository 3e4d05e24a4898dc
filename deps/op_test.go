// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/chain"
)

// reduceAll executes a reduction group: each participant has its own copy.
func reduceAll[T any](x *T, op deps.Op[T], parts ...T) {
	r := deps.NewReduction(x, op)
	g := r.Reduce().Reduced().Open(4)
	var taken []*chain.Copy
	for _, v := range parts {
		c := g.Take(0, nil)
		op.Combine(deps.Private(r, c), &v)
		taken = append(taken, c)
	}
	for i, c := range taken {
		g.Give(i, c)
	}
	g.Combine(0, 1)
	g.Close()
}

// reduceSlice is reduceAll for a slice of which every element is x.
func reduceSlice[T any](x *T, op deps.Op[T], parts ...T) []T {
	s := []T{*x, *x, *x, *x, *x}
	r := deps.NewSliceReduction(s[1:4], op)
	g := r.Reduce().Reduced().Open(4)
	var taken []*chain.Copy
	for _, v := range parts {
		c := g.Take(0, nil)
		for i := range deps.Private(r, c) {
			op.Combine(&deps.Private(r, c)[i], &v)
		}
		taken = append(taken, c)
	}
	for i, c := range taken {
		g.Give(i, c)
	}
	g.Combine(0, 1)
	g.Combine(1, 3)
	g.Close()
	return s
}

func checkOp[T any](t *testing.T, name string, op deps.Op[T], initial, want T, parts ...T) {
	t.Helper()
	x := initial
	reduceAll(&x, op) // without a participant
	require.Equal(t, initial, x, name)
	s := reduceSlice(&x, op, parts...)
	require.Equal(t, []T{initial, want, want, want, initial}, s, name)
	reduceAll(&x, op, parts...)
	require.Equal(t, want, x, name)
	if op.Init != nil { // the neutral value is one
		var e T
		op.Init(&e)
		op.Combine(&x, &e)
		require.Equal(t, want, x, name)
	}
}

type celsius float32

func checkInteger[T deps.Integer](t *testing.T) {
	t.Helper()
	var least, most T
	deps.Max[T]().Init(&least)
	deps.Min[T]().Init(&most)
	require.Less(t, least, most)
	require.Equal(t, least, most+1, "the neutral values are the ends of the type")
	checkOp(t, "Sum", deps.Sum[T](), 7, 17, 3, 7)
	checkOp(t, "Prod", deps.Prod[T](), 2, 30, 3, 5)
	checkOp(t, "Min", deps.Min[T](), most, 3, 5, most, 3)
	checkOp(t, "Min", deps.Min[T](), most, least, 5, least, 3)
	checkOp(t, "Max", deps.Max[T](), least, 5, 5, least, 3)
	checkOp(t, "Max", deps.Max[T](), least, most, 5, most, 3)
	checkOp(t, "And", deps.And[T](), 0b1110, 0b0100, 0b0111, 0b1101)
	checkOp(t, "Or", deps.Or[T](), 0b10, 0b111, 0b001, 0b100)
	checkOp(t, "Xor", deps.Xor[T](), 0b11, 0b110, 0b001, 0b100)
}

func TestOps(t *testing.T) {
	checkInteger[int](t)
	checkInteger[int8](t)
	checkInteger[int16](t)
	checkInteger[int32](t)
	checkInteger[int64](t)
	checkInteger[uint](t)
	checkInteger[uint8](t)
	checkInteger[uint16](t)
	checkInteger[uint32](t)
	checkInteger[uint64](t)
	checkInteger[uintptr](t)
	inf := math.Inf(1)
	checkOp(t, "Sum", deps.Sum[float64](), 1, 4.5, 1.5, 2)
	checkOp(t, "Prod", deps.Prod[celsius](), 2, 6, 1.5, 2)
	checkOp(t, "Min", deps.Min[float64](), inf, -3, 5, -3, inf)
	checkOp(t, "Min", deps.Min[celsius](), 4, 3, 5, 3)
	checkOp(t, "Max", deps.Max[float64](), -inf, 5, 5, -3, -inf)
	checkOp(t, "Max", deps.Max[float64](), -inf, -inf)
	checkOp(t, "Max", deps.Max[float32](), 4, 5, 5, 3)
	checkOp(t, "Sum", deps.Sum[complex128](), 1i, 3+2i, 1+1i, 2)
	checkOp(t, "Prod", deps.Prod[complex64](), 2, 2i, 1, 1i)
	checkOp(t, "LogicalAnd", deps.LogicalAnd[bool](), true, true, true, true)
	checkOp(t, "LogicalAnd", deps.LogicalAnd[bool](), true, false, true, false)
	checkOp(t, "LogicalAnd", deps.LogicalAnd[bool](), false, false, true)
	checkOp(t, "LogicalOr", deps.LogicalOr[bool](), false, true, true, false)
	checkOp(t, "LogicalOr", deps.LogicalOr[bool](), false, false, false)
	checkOp(t, "LogicalOr", deps.LogicalOr[bool](), true, true, false)
	x := 1.0
	reduceAll(&x, deps.Min[float64](), 2, math.NaN(), 3)
	require.True(t, math.IsNaN(x), "a NaN does not get lost")
}

// User operators: with and without Init, of types with pointers.
func TestUserOps(t *testing.T) {
	type best struct{ value, at int }
	op := deps.Op[best]{
		Init: func(b *best) { *b = best{math.MaxInt, -1} },
		Combine: func(into, from *best) {
			if from.value < into.value || from.value == into.value && from.at < into.at {
				*into = *from
			}
		},
	}
	checkOp(t, "argmin", op, best{5, 0}, best{3, 2}, best{4, 1}, best{3, 7}, best{3, 2})

	union := deps.Op[map[string]int]{Combine: func(into, from *map[string]int) {
		if *into == nil {
			*into = map[string]int{}
		}
		for k, v := range *from {
			(*into)[k] += v
		}
	}}
	var m map[string]int
	reduceAll(&m, union, map[string]int{"a": 1}, map[string]int{"a": 2, "b": 3})
	require.Equal(t, map[string]int{"a": 3, "b": 3}, m)
}

func TestReductionsRefused(t *testing.T) {
	sum := deps.Sum[int]()
	const zero = ": distinct zero-size objects can share one address in Go; use a field or variable of at least one byte"
	for want, f := range map[string]func(){
		"deps: access through a nil *int; name an object that exists": func() { deps.NewReduction(nil, sum) },
		"deps: access to a zero-size object (*struct {})" + zero: func() {
			deps.NewReduction(new(struct{}), deps.Op[struct{}]{Combine: func(_, _ *struct{}) {}})
		},
	} {
		require.PanicsWithError(t, want, f)
	}
	for want, f := range map[string]func(){
		"deps: access to a slice of zero-size elements ([]struct {}): it has no memory that a task could use": func() {
			deps.NewSliceReduction(make([]struct{}, 3), deps.Op[struct{}]{Combine: func(_, _ *struct{}) {}})
		},
		"deps: an operator without Combine; use Sum, Prod, Min, Max and the like, or Op{Init: ..., Combine: ...}": func() {
			deps.NewReduction(new(int), deps.Op[int]{})
		},
		"deps: the zero Reduction reduces nothing; use NewReduction or NewSliceReduction": func() {
			new(deps.SliceReduction[int]).Reduce()
		},
	} {
		require.PanicsWithValue(t, want, f)
	}
}

func TestReduceAccess(t *testing.T) {
	x := [3]int{}
	r := deps.NewReduction(&x[0], deps.Sum[int]())
	s := deps.NewSliceReduction(x[:2], deps.Sum[int]())
	a, b := r.Reduce(), s.Reduce()
	require.Equal(t, deps.ModeReduce, a.Mode())
	require.Equal(t, "Reduce", a.Mode().String())
	require.Equal(t, "Reduce"+deps.In(&x[0]).String()[len("In"):], a.String())
	require.Equal(t, a.String()+".Weak()", a.Weak().String())
	require.True(t, a.Weak().IsWeak())
	require.Equal(t, a.String(), b.String(), "both are named by the first element")
	require.Nil(t, deps.InOut(&x[0]).Reduced())
	require.Same(t, a.Reduced(), r.Reduce().Weak().Reduced())
	require.NotSame(t, a.Reduced(), b.Reduced())
	for _, c := range []struct {
		a    deps.Access
		same bool
	}{{a, true}, {b, true}, {deps.In(&x), true}, {deps.In(&x[0]).Weak(), true}, {deps.In(&x[1]), false}} {
		require.Equal(t, c.same, a.Reduced().Meets(deps.Engine(c.a)), c.a)
	}
	require.Equal(t, deps.Engine(deps.InOut(&x[0])), a.Reduced().InOut())
	require.Equal(t, []int{1, 2}, []int{a.Reduced().Len(), b.Reduced().Len()})

	e1, e2 := deps.NewSliceReduction(x[:0], deps.Sum[int]()), deps.NewSliceReduction[int](nil, deps.Sum[int]())
	require.False(t, e1.Reduce().Reduced().Meets(deps.Engine(deps.In(&x))), "an empty slice is no object of the program")
	require.False(t, e1.Reduce().Reduced().Meets(deps.Engine(e2.Reduce())))
	g := e1.Reduce().Reduced().Open(1)
	c := g.Take(0, nil)
	require.Empty(t, deps.Private(e1, c))
	g.Give(0, c)
	g.Combine(0, 0)
	g.Close()
}
