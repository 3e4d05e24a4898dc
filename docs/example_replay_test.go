// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"weft/deps"
	"weft/task"
)

const segments, width = 6, 8

// rod is the temperature of a rod, in segments, between ends at 1 and 0.
type rod [segments][width]float64

func (u *rod) at(i int) float64 {
	switch {
	case i < 0:
		return 1
	case i >= segments*width:
		return 0
	}
	return u[i/width][i%width]
}

// relax brings a segment nearer to the solution, in place.
func relax(u *rod, b int) {
	for i := b * width; i < (b+1)*width; i++ {
		u[b][i%width] = (u.at(i-1) + u.at(i+1)) / 2
	}
}

// average does so from one rod to another, and returns the largest change.
func average(from, to *rod, b int) (change float64) {
	for i := b * width; i < (b+1)*width; i++ {
		to[b][i%width] = (from.at(i-1) + from.at(i+1)) / 2
		change = max(change, math.Abs(to.at(i)-from.at(i)))
	}
	return change
}

func Example_iterate() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	const sweeps = 5000
	u := new(rod)
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Iterate(sweeps, func(it *task.Iteration) error {
			for b := range segments { // Gauss-Seidel: segment b-1 has this sweep's values already
				it.Spawn(func(*task.Task) error { relax(u, b); return nil },
					deps.InOut(&u[b]), deps.In(&u[max(b-1, 0)]), deps.In(&u[min(b+1, segments-1)]))
			}
			return nil
		}, deps.InOut(u))
		return nil
	})
	fmt.Printf("%.6f %.6f %v\n", u.at(0), u.at(24), err)
	// Output: 0.979592 0.489796 <nil>
}

func Example_iterateWhile() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	u := new([2]rod)
	err := rt.Run(context.Background(), func(t *task.Task) error {
		var change [segments]float64
		attrs := task.IterAttrs{
			Unroll: 2, // from u[0] to u[1], and back
			While:  func(t *task.Task) (bool, error) { return t.Iteration() == 0 || slices.Max(change[:]) > 1e-9, nil },
		}
		t.IterateWith(attrs, func(it *task.Iteration) error {
			from, to := &u[it.Number()], &u[1-it.Number()]
			for b := range segments { // Jacobi: all segments together
				it.Spawn(func(*task.Task) error { change[b] = average(from, to, b); return nil },
					deps.In(&from[max(b-1, 0)]), deps.In(&from[b]), deps.In(&from[min(b+1, segments-1)]), deps.Out(&to[b]))
			}
			return nil
		}, deps.InOut(u))
		return nil
	})
	fmt.Printf("%.4f %.4f %v\n", u[0].at(0), u[0].at(24), err)
	// Output: 0.9796 0.4898 <nil>
}
