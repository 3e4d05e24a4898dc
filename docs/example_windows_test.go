// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"

	"weft/comm"
	"weft/rma"
)

func Example_window() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
		win, mine, err := rma.Allocate[int](c, 4) // four elements at each rank
		if err != nil {
			return err
		}
		right := (c.Rank() + 1) % c.Size()
		if err := win.Fence(0); err != nil { // opens an epoch
			return err
		}
		if err := win.Put(comm.Of([]int{c.Rank()}), right, 2); err != nil {
			return err
		}
		if err := win.Accumulate(comm.Of([]int{1}), 0, 3, comm.Sum); err != nil {
			return err
		}
		if err := win.Fence(0); err != nil { // closes it: everything is in place
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(mine)
		}
		return win.Free()
	})
	fmt.Println(err)
	// Output:
	// [0 0 2 3]
	// <nil>
}

func Example_ifence() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		win, mine, err := rma.Allocate[float64](c, 1)
		if err != nil {
			return err
		}
		src := []float64{float64(c.Rank() + 1)}
		opened := win.Ifence(0)
		if err := win.Put(comm.Of(src), 1-c.Rank(), 0); err != nil { // queued until the fence
			return err
		}
		closed := win.Ifence(0)
		if err := comm.WaitAll(c.Context(), opened, closed); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(mine)
		}
		return win.Free()
	})
	fmt.Println(err)
	// Output:
	// [2]
	// <nil>
}
