// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// ITR-01: 100 iterations of 50 tasks give what the sequential loop gives, counted and with a condition,
// with every unrolling, whether it divides the iterations or not.
func TestIterITR01(t *testing.T) {
	const iterations, tasks = 100, 50
	body := func(v []int64, i, k int) {
		v[k] = v[k]*3 + v[(k+7)%tasks] + v[(k+13)%tasks] + int64(i*k)
	}
	var want [tasks]int64
	for i := range iterations {
		for k := range tasks {
			body(want[:], i, k)
		}
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, form := range []string{"counted", "while", "while, bounded"} {
			for _, unroll := range []int{0, 1, 2, 3, 7, 50, 99, 100, 101} {
				var v [tasks]int64
				a := IterAttrs{Unroll: unroll}
				if form != "while" {
					a.Iterations = iterations
				}
				asked := 0
				if form != "counted" {
					if max(unroll, 1) > 1 && iterations%unroll != 0 && form == "while" {
						continue // the plain loop of this form does whole groups
					}
					a.While = func(t *Task) (bool, error) {
						asked++
						return t.Iteration() < iterations, nil
					}
				}
				err := rt.Run(bg, func(t *Task) error {
					t.IterateWith(a, func(it *Iteration) error {
						for k := range tasks {
							it.Spawn(func(t *Task) error { body(v[:], t.Iteration(), k); return nil },
								deps.InOut(&v[k]), deps.In(&v[(k+7)%tasks]), deps.In(&v[(k+13)%tasks]))
						}
						return nil
					})
					return nil
				})
				what := fmt.Sprintf("%s, unroll %d, %d workers", form, unroll, workers)
				require.NoError(t, err, what)
				require.Equal(t, want, v, what)
			}
		}
	}
}
