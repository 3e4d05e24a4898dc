// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"weft/deps"
	"weft/task"
)

func Example_modes() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	var x int
	var hits atomic.Int64
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { x = 1; return nil }, deps.Out(&x))
		for range 3 { // these may run together, after the writer
			t.Spawn(func(*task.Task) error { hits.Add(int64(x)); return nil }, deps.In(&x))
		}
		// after all readers
		t.Spawn(func(*task.Task) error { x += 10; return nil }, deps.InOut(&x))
		for range 4 { // these may run together; hits is atomic
			t.Spawn(func(*task.Task) error { hits.Add(1); return nil }, deps.Concurrent(&hits))
		}
		t.Spawn(func(*task.Task) error {
			fmt.Println(x, hits.Load())
			return nil
		}, deps.In(&x), deps.In(&hits))
		return nil
	})
	fmt.Println(err)
	// Output:
	// 11 7
	// <nil>
}

// Forces on both ends of edges: the order of the edges does not matter.
func Example_commutative() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	edges := []struct{ from, to, weight int }{{0, 1, 5}, {2, 3, 1}, {1, 2, 7}, {3, 0, 2}}
	force := make([]int, 4)
	err := rt.Run(context.Background(), func(t *task.Task) error {
		var inAll []deps.Access
		for i := range force {
			inAll = append(inAll, deps.In(&force[i]))
		}
		for _, e := range edges { // edges that share no node run together
			t.Spawn(func(*task.Task) error {
				force[e.from] += e.weight
				force[e.to] -= e.weight
				return nil
			}, deps.Commutative(&force[e.from]), deps.Commutative(&force[e.to]))
		}
		// after all of them
		t.Spawn(func(*task.Task) error { fmt.Println(force); return nil }, inAll...)
		return nil
	})
	fmt.Println(err)
	// Output:
	// [3 2 -6 1]
	// <nil>
}

// A Gauss-Seidel wave front: the accesses of a block are a list.
func Example_list() {
	const n = 4
	var blocks [n + 2][n + 2]struct{ version int }
	rt := task.New(task.Config{})
	defer rt.Close()
	err := rt.Run(context.Background(), func(t *task.Task) error {
		for range 10 {
			for r := 1; r <= n; r++ {
				for c := 1; c <= n; c++ {
					list := []deps.Access{deps.InOut(&blocks[r][c])}
					for _, d := range [][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}} {
						list = append(list, deps.In(&blocks[r+d[0]][c+d[1]]))
					}
					t.Spawn(func(*task.Task) error { blocks[r][c].version++; return nil }, list...)
				}
			}
		}
		return nil
	})
	fmt.Println(blocks[1][1].version, blocks[n][n].version, err)
	// Output: 10 10 <nil>
}

func Example_nested() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	var a, b int
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(t *task.Task) error { // touches neither itself
			t.Spawn(func(*task.Task) error { a = 1; return nil }, deps.Out(&a))
			t.Spawn(func(*task.Task) error { b = 2; return nil }, deps.Out(&b))
			return nil
		}, deps.Out(&a).Weak(), deps.Out(&b).Weak())
		// Waits for the child that writes a, not for its sibling or its parent.
		t.Spawn(func(*task.Task) error { fmt.Println("a is", a); return nil }, deps.In(&a))
		return nil
	})
	fmt.Println(err)
	// Output:
	// a is 1
	// <nil>
}

func Example_ranges() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	const n = 12
	v := make([]int, n)
	sums := make([]int, n/4-1)
	fill := func(part []int, from int) {
		for i := range part {
			part[i] = from + i
		}
	}
	sum := func(part []int) (s int) {
		for _, x := range part {
			s += x
		}
		return s
	}
	err := rt.Run(context.Background(), func(t *task.Task) error {
		for lo := 0; lo < n; lo += 4 { // blocks of four
			t.Spawn(func(*task.Task) error { fill(v[lo:lo+4], lo); return nil }, deps.Slice(v[lo:lo+4]).Out())
		}
		for lo := 2; lo+4 <= n; lo += 4 { // ranges across the blocks: each waits for two of them
			t.Spawn(func(*task.Task) error { sums[lo/4] = sum(v[lo : lo+4]); return nil },
				deps.Slice(v[lo:lo+4]).In(), deps.Out(&sums[lo/4]))
		}
		t.Spawn(func(*task.Task) error { fmt.Println(sum(v), sums); return nil }, deps.Slice(v).In(), deps.Slice(sums).In())
		return nil
	})
	fmt.Println(err)
	// Output:
	// 66 [14 30]
	// <nil>
}

func Example_release() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	var head, tail int
	err := rt.Run(context.Background(), func(t *task.Task) error {
		seen := make(chan struct{})
		t.Spawn(func(t *task.Task) error {
			head = 1
			if err := t.Release(deps.Out(&head)); err != nil {
				return err
			}
			t.Blocking(func() { <-seen }) // the reader of head runs before this body ends
			tail = 2
			return nil
		}, deps.Out(&head), deps.Out(&tail))
		t.Spawn(func(*task.Task) error { fmt.Println("head", head); close(seen); return nil }, deps.In(&head))
		t.Spawn(func(*task.Task) error { fmt.Println("tail", tail); return nil }, deps.In(&tail))
		return nil
	})
	fmt.Println(err)
	// Output:
	// head 1
	// tail 2
	// <nil>
}

func Example_debug() {
	rt := task.New(task.Config{Workers: 1, Debug: true}) // found with one worker too
	defer rt.Close()
	var total int
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.SpawnWith(task.Attrs{Label: "first"}, func(t *task.Task) error { total = 1; return nil }, deps.Out(&total))
		t.SpawnWith(task.Attrs{Label: "second"}, func(t *task.Task) error {
			// should say deps.InOut(&total).Weak()
			t.SpawnWith(task.Attrs{Label: "inner"}, func(t *task.Task) error { total++; return nil }, deps.InOut(&total))
			return nil
		}) // and so nothing orders first and inner
		return nil
	})
	fmt.Println(errors.Is(err, task.ErrConflict))
	// Output: true
}
