// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

func fib(t *Task, n int, out *int) error {
	if n < 2 {
		*out = n
		return nil
	}
	var a, b int
	t.Spawn(func(t *Task) error { return fib(t, n-1, &a) })
	t.Spawn(func(t *Task) error { return fib(t, n-2, &b) })
	if err := t.Wait(); err != nil {
		return err
	}
	*out = a + b
	return nil
}

func TestSmokeFib(t *testing.T) {
	rt := New(Config{Workers: 3})
	defer rt.Close()
	var out int
	require.NoError(t, rt.Run(context.Background(), func(t *Task) error { return fib(t, 20, &out) }))
	require.Equal(t, 6765, out)
}

func TestSmokeChain(t *testing.T) {
	rt := New(Config{Workers: 3})
	defer rt.Close()
	x := 0
	const n = 100000
	require.NoError(t, rt.Run(context.Background(), func(t *Task) error {
		for range n {
			t.Spawn(func(t *Task) error { x++; return nil }, deps.InOut(&x))
		}
		return nil
	}))
	require.Equal(t, n, x)
}

func bench(b *testing.B, workers int, main func(t *Task, n int)) {
	rt := New(Config{Workers: workers})
	defer rt.Close()
	b.ReportAllocs()
	rt.Run(context.Background(), func(t *Task) error {
		main(t, b.N)
		return nil
	})
}

func BenchmarkChain(b *testing.B) {
	for _, w := range []int{1, 2} {
		b.Run(string(rune('0'+w)), func(b *testing.B) {
			x := 0
			bench(b, w, func(t *Task, n int) {
				for range n {
					t.Spawn(func(t *Task) error { x++; return nil }, deps.InOut(&x))
				}
			})
		})
	}
}

func BenchmarkIndependent(b *testing.B) {
	for _, w := range []int{1, 2} {
		b.Run(string(rune('0'+w)), func(b *testing.B) {
			bench(b, w, func(t *Task, n int) {
				for range n {
					t.Spawn(func(t *Task) error { return nil })
				}
			})
		})
	}
}

func BenchmarkFib(b *testing.B) {
	for _, w := range []int{1, 2} {
		b.Run(string(rune('0'+w)), func(b *testing.B) {
			bench(b, w, func(t *Task, n int) {
				for n > 0 {
					var out int
					fib(t, 25, &out)
					n -= 242784
				}
			})
		})
	}
}
