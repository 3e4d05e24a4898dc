// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"

	"weft/comm"
	"weft/deps"
	"weft/rma"
	"weft/tampi"
	"weft/task"
)

func Example_iwait() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		return tampi.Run(rt, c, func(t *task.Task) error {
			row := make([]float64, 4)
			if c.Rank() == 0 {
				t.Spawn(func(*task.Task) error { row[0] = 42; return nil }, deps.Out(&row[0]))
				t.Spawn(func(t *task.Task) error {
					return tampi.Iwait(t, c.Isend(comm.Of(row), 1, 0))
				}, deps.In(&row[0]))
				return nil
			}
			t.Spawn(func(t *task.Task) error {
				return tampi.Iwait(t, c.Irecv(comm.Of(row), 0, 0)) // returns at once
			}, deps.Out(&row[0]))
			t.Spawn(func(*task.Task) error { // runs when the message is there
				fmt.Println(row[0])
				return nil
			}, deps.In(&row[0]))
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// 42
	// <nil>
}

func Example_blockingCalls() {
	rt := task.New(task.Config{Workers: 1}) // one slot for both ranks
	defer rt.Close()
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		return tampi.Run(rt, c, func(t *task.Task) error {
			if c.Rank() == 0 {
				return tampi.Ssend(t, c, comm.Of([]int{7}), 1, 0)
			}
			got := make([]int, 1)
			if _, err := tampi.Recv(t, c, comm.Of(got), 0, 0); err != nil {
				return err
			}
			fmt.Println(got[0])
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// 7
	// <nil>
}

// Puts between two fences, without a wait in any task.
func Example_fenceTasks() {
	rt := task.New(task.Config{})
	defer rt.Close()
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		win, mine, err := rma.Allocate[int](c, 8)
		if err != nil {
			return err
		}
		blocks := make([]int, 8)
		err = tampi.Run(rt, c, func(t *task.Task) error {
			fence := func(t *task.Task) error { return tampi.Iwait(t, win.Ifence(0)) }
			all := []deps.Access{deps.InOut(win)}
			for b := range blocks {
				t.Spawn(func(*task.Task) error { blocks[b] = 10*c.Rank() + b; return nil }, deps.Out(&blocks[b]))
				all = append(all, deps.In(&blocks[b]))
			}
			t.Spawn(fence, deps.InOut(win)) // opens the epoch
			for b := range blocks {
				t.Spawn(func(*task.Task) error {
					return win.Put(comm.Of(blocks[b:b+1]), 1-c.Rank(), b)
				}, deps.In(&blocks[b]), deps.Concurrent(win))
			}
			t.Spawn(fence, all...) // closes it
			return nil
		})
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(mine)
		}
		return win.Free()
	})
	fmt.Println(err)
	// Output:
	// [10 11 12 13 14 15 16 17]
	// <nil>
}

// Anything that ends some time can be bound: here a function of another goroutine.
func Example_ownRequest() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	var data string
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(t *task.Task) error {
			req, complete := comm.NewRequest()
			go func() {
				data = "read from somewhere"
				complete(nil)
			}()
			return tampi.Iwait(t, req)
		}, deps.Out(&data))
		t.Spawn(func(*task.Task) error { fmt.Println(data); return nil }, deps.In(&data))
		return nil
	})
	fmt.Println(err)
	// Output:
	// read from somewhere
	// <nil>
}
