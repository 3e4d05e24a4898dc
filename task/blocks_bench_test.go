// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"testing"

	"weft/deps"
)

// BenchmarkBlocks is the Gauss–Seidel graph with empty bodies on grids of several
// sizes: how the cost per task depends on the memory that is in use.
func BenchmarkBlocks(b *testing.B) {
	for _, n := range []int{4, 16, 64} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("grid=%d/workers=%d", n, workers), func(b *testing.B) {
				rt := New(Config{Workers: workers})
				defer rt.Close()
				g := make([][8]int64, (n+2)*(n+2))
				b.ReportAllocs()
				err := rt.Run(context.Background(), func(t *Task) error {
					for done := 0; done < b.N; {
						for r := 1; r <= n; r++ {
							for c := 1; c <= n; c++ {
								i := r*(n+2) + c
								own := &g[i]
								t.Spawn(func(*Task) error { own[0]++; return nil }, deps.InOut(own),
									deps.In(&g[i-n-2]), deps.In(&g[i-1]), deps.In(&g[i+1]), deps.In(&g[i+n+2]))
								done++
							}
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				var sum int64
				for i := range g {
					sum += g[i][0]
				}
				if sum < int64(b.N) {
					b.Fatalf("%d tasks ran, want %d or more", sum, b.N)
				}
			})
		}
	}
}
