// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// testAll covers lengths around those of the blocks, alignments, and dst being an operand.
func testAll[T Number](t *testing.T, values []T, f func(dst, a, b []T), want func(a, b T) T, same func(x, y T) bool) {
	t.Helper()
	const most = 300
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() []T {
		s := make([]T, most+8)
		for i := range s {
			s[i] = values[rng.IntN(len(values))]
		}
		return s
	}
	for n := 0; n <= most; n = n + 1 + n/40 {
		for shift := range 5 {
			a, b, d := pick()[shift:shift+n], pick()[2*shift%7:][:n], pick()[3*shift%8:]
			for _, dst := range [][]T{d[:n], append([]T(nil), a...), append([]T(nil), b...)} {
				x, y := a, b
				switch {
				case n == 0:
				case &dst[0] == &d[0]:
				case same(dst[0], a[0]) && n%2 == 0:
					copy(dst, a)
					x = dst
				default:
					copy(dst, b)
					y = dst
				}
				before := d[n]
				f(dst, x, y)
				require.True(t, same(before, d[n]), "beyond the end")
				for i := range n {
					if !same(want(a[i], b[i]), dst[i]) {
						require.Fail(t, "wrong", "%d of %d: %v and %v give %v", i, n, a[i], b[i], dst[i])
					}
				}
			}
		}
	}
}

func equal[T comparable](x, y T) bool { return x == y }

func same64(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

func same32(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

func floats[T float32 | float64]() []T {
	v := []T{0, T(math.Copysign(0, -1)), 1, -1, T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), 1e-40, -1e-40, 3e38}
	for range 20 {
		v = append(v, T(rand.NormFloat64()))
	}
	return v
}

func integers[T int8 | int32 | int64 | uint32 | uint64](least, most T) []T {
	v := []T{0, 1, least, most, most - 1, least + 1}
	for range 20 {
		v = append(v, T(rand.Uint64()))
	}
	return v
}

func ordered[T Ordered](t *testing.T, values []T, same func(x, y T) bool) {
	t.Run(fmt.Sprintf("%T", values), func(t *testing.T) {
		testAll(t, values, Sum[T], func(a, b T) T { return a + b }, same)
		testAll(t, values, Prod[T], func(a, b T) T { return a * b }, same)
		testAll(t, values, Min[T], func(a, b T) T { return min(a, b) }, same)
		testAll(t, values, Max[T], func(a, b T) T { return max(a, b) }, same)
	})
}

func testEverything(t *testing.T) {
	ordered(t, floats[float64](), same64)
	ordered(t, floats[float32](), same32)
	ordered(t, integers[int64](math.MinInt64, math.MaxInt64), equal)
	ordered(t, integers[int32](math.MinInt32, math.MaxInt32), equal)
	ordered(t, integers[int8](math.MinInt8, math.MaxInt8), equal)
	ordered(t, integers[uint32](0, math.MaxUint32), equal)
	ordered(t, integers[uint64](0, math.MaxUint64), equal)
	testAll(t, []complex128{1, 2i, 3 + 4i}, Sum[complex128], func(a, b complex128) complex128 { return a + b }, equal)
	testAll(t, []complex64{1, 2i, 3 + 4i}, Prod[complex64], func(a, b complex64) complex64 { return a * b }, equal)
}

func TestEverything(t *testing.T) { testEverything(t) }

func TestShortOperandsPanic(t *testing.T) {
	a, short := make([]float64, 64), make([]float64, 63)
	require.Panics(t, func() { Sum(a, a, short) })
	require.Panics(t, func() { Sum(short, a, a) })
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{1, 64, 4096, 1 << 17} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y := make([]float64, n), make([]float64, n)
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				Sum(y, x, y)
			}
		})
	}
}
