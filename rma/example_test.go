// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
	"fmt"

	"weft/comm"
	"weft/rma"
)

// Each rank adds its number to rank 0's memory, and rank 0 reads the sum after the fence.
func Example() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 4}, func(c *comm.Comm) error {
		w, mine, err := rma.Allocate[int](c, 1)
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		err = w.Accumulate(comm.Of([]int{c.Rank()}), 0, 0, comm.Sum)
		err = errors.Join(err, w.Fence(rma.NoSucceed))
		if c.Rank() == 0 {
			fmt.Println(mine[0])
		}
		return errors.Join(err, w.Free())
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 6
}
