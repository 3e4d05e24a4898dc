// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"

	"weft/comm"
)

func Example_ring() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 4}, func(c *comm.Comm) error {
		right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		mine, got, sum := []int{c.Rank()}, make([]int, 1), make([]int, 1)
		if _, err := c.Sendrecv(comm.Of(mine), right, 0, comm.Of(got), left, 0); err != nil {
			return err
		}
		if err := c.Allreduce(comm.Of(got), comm.Of(sum), comm.Sum); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("from the left:", got[0], "sum:", sum[0])
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// from the left: 3 sum: 6
	// <nil>
}

func Example_column() {
	const rows, cols = 3, 4
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		if c.Rank() == 0 {
			m := make([]float64, rows*cols)
			for i := range m {
				m[i] = float64(i)
			}
			// Column 1: a block of one element per row, a row apart.
			return c.Send(comm.Vector(m[1:], rows, 1, cols), 1, 7)
		}
		column := make([]float64, rows)
		status, err := c.Recv(comm.Of(column), comm.AnySource, comm.AnyTag)
		fmt.Println(column, "from", status.Source, "tag", status.Tag, "bytes", status.Bytes)
		return err
	})
	fmt.Println(err)
	// Output:
	// [1 5 9] from 0 tag 7 bytes 24
	// <nil>
}

func Example_requests() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		peer := 1 - c.Rank()
		in, out := make([]int32, 1000), make([]int32, 1000)
		recv := c.Irecv(comm.Of(in), peer, 0)
		send := c.Isend(comm.Of(out), peer, 0)
		// ... compute ...
		return comm.WaitAll(c.Context(), recv, send)
	})
	fmt.Println(err)
	// Output: <nil>
}

func Example_callback() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		done := make(chan error, 1)
		c.Ibarrier().OnDone(func(err error) { done <- err }) // must not block
		return <-done
	})
	fmt.Println(err)
	// Output: <nil>
}

func Example_split() {
	err := comm.Run(context.Background(), comm.Config{Ranks: 4}, func(c *comm.Comm) error {
		row, err := c.Split(c.Rank()/2, c.Rank()) // two communicators of two ranks
		if err != nil {
			return err
		}
		sum := []int{0}
		if err := row.Reduce(comm.Of([]int{c.Rank()}), comm.Of(sum), comm.Sum, 0); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Println("rank", row.Rank(), "of", row.Size(), "has", sum[0])
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// rank 0 of 2 has 5
	// <nil>
}

func Example_operator() {
	// Composition of functions x -> a*x+b is associative and does not commute.
	type affine struct{ A, B float64 }
	compose := comm.OpFunc(false, func(in, inout []affine) {
		for i, f := range in {
			g := inout[i] // inout = f then g
			inout[i] = affine{A: g.A * f.A, B: g.A*f.B + g.B}
		}
	})
	err := comm.Run(context.Background(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
		mine := []affine{{A: 2, B: float64(c.Rank())}}
		all := make([]affine, 1)
		if err := c.Allreduce(comm.Of(mine), comm.Of(all), compose); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(all[0])
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// {8 4}
	// <nil>
}

func Example_failure() {
	errFull := errors.New("disk is full")
	err := comm.Run(context.Background(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
		if c.Rank() == 1 {
			return errFull
		}
		return c.Barrier() // returns, with comm.ErrAborted
	})
	var re *comm.RankError
	fmt.Println(errors.Is(err, errFull), errors.As(err, &re))
	fmt.Println(err) // comm: rank 1: disk is full
	// Output:
	// true true
	// comm: rank 1: disk is full
}
