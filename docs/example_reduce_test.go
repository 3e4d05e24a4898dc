// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"

	"weft/deps"
	"weft/task"
)

func Example_reduceDot() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	const n = 10000
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], y[i] = 2, 0.5
	}
	dot := 0.0
	err := rt.Run(context.Background(), func(t *task.Task) error {
		sum := deps.NewReduction(&dot, deps.Sum[float64]())
		t.Loop(0, n, func(t *task.Task, lo, hi int) error {
			own := task.Local(t, sum) // this task's private copy
			for i := lo; i < hi; i++ {
				*own += x[i] * y[i]
			}
			return nil
		}, sum.Reduce())
		// after all chunks
		t.Spawn(func(*task.Task) error { fmt.Println(dot); return nil }, deps.In(&dot))
		return nil
	})
	fmt.Println(err)
	// Output:
	// 10000
	// <nil>
}

func Example_reduceQueens() {
	const n = 8
	ways := 0
	count := deps.NewReduction(&ways, deps.Sum[int]())
	var queens func(t *task.Task, row int, cols, left, right uint) error
	queens = func(t *task.Task, row int, cols, left, right uint) error {
		if row == n {
			*task.Local(t, count)++
			return nil
		}
		for free := ^(cols | left | right) & (1<<n - 1); free != 0; free &= free - 1 {
			bit := free & -free
			t.SpawnWith(task.Attrs{Final: row > 3}, func(t *task.Task) error {
				return queens(t, row+1, cols|bit, (left|bit)<<1, (right|bit)>>1)
			}, count.Reduce())
		}
		return nil // no task waits for the tree
	}

	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(t *task.Task) error { return queens(t, 0, 0, 0, 0) }, count.Reduce().Weak())
		return nil
	})
	fmt.Println(ways, err)
	// Output: 92 <nil>
}

func Example_reduceUser() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	heights := []float64{178.6, 201.3, 165.2, 188.8}
	type peak struct {
		height float64
		at     int
	}
	highest := peak{at: -1}
	argmax := deps.NewReduction(&highest, deps.Op[peak]{
		Init: func(p *peak) { *p = peak{at: -1} },
		Combine: func(into, from *peak) {
			if from.height > into.height {
				*into = *from
			}
		},
	})
	histogram := make([]int, 3)
	bins := deps.NewSliceReduction(histogram, deps.Sum[int]())
	err := rt.Run(context.Background(), func(t *task.Task) error {
		for i, h := range heights {
			t.Spawn(func(t *task.Task) error {
				if p := task.Local(t, argmax); h > p.height {
					*p = peak{h, i}
				}
				task.Local(t, bins)[int(h-160)/20]++
				return nil
			}, argmax.Reduce(), bins.Reduce())
		}
		return t.Wait() // combines as well
	})
	fmt.Println(highest, histogram, err)
	// Output: {201.3 1} [2 1 1] <nil>
}
