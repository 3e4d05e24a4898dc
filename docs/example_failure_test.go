// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"

	"weft/comm"
)

func Example_survive() {
	ctx := context.Background()
	died := errors.New("out of order")
	err := comm.Run(ctx, comm.Config{Ranks: 4, Survive: true}, func(c *comm.Comm) error {
		sum, victim := make([]int, 1), c.Rank() == 2
		if victim {
			return died
		}
		work := func(c *comm.Comm) error { return c.Allreduce(comm.Of([]int{1}), comm.Of(sum), comm.Sum) }
		for {
			good := uint64(1)
			if err := work(c); err != nil {
				good = 0
				c.Revoke() // others may wait for messages that will not come now
			}
			all, err := c.Agree(ctx, good)
			if all == 1 && err == nil {
				break
			}
			if c, err = c.Shrink(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(sum[0], "ranks are left")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 3 ranks are left
	// comm: rank 2: out of order
}

func Example_acknowledge() {
	_ = comm.Run(context.Background(), comm.Config{Ranks: 3, Survive: true}, func(c *comm.Comm) error {
		switch c.Rank() {
		case 1:
			return errors.New("out of order")
		case 2:
			return c.Send(comm.Of([]int{7}), 0, 0)
		}
		for len(c.Failed()) == 0 {
			if _, err := c.Recv(comm.Of([]int{0}), 1, 0); err != nil {
				break
			}
		}
		lost := c.Failed()
		c.AckFailed(len(lost)) // from now on, wait for the others
		in := make([]int, 1)
		_, err := c.Recv(comm.Of(in), comm.AnySource, 0)
		fmt.Println(lost, in, err)
		return nil
	})
	// Output:
	// [1] [7] <nil>
}
