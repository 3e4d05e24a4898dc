// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"weft/comm"
	"weft/nam"
)

// Two ranks leave data in a store; then a program with one rank finds it by name.
func Example() {
	dir, err := os.MkdirTemp("", "weft-nam-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := nam.Open(dir, nam.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	ctx := context.Background()
	err = comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 3*8, 8, nam.Persistent, nam.Name("example"))
		if err != nil {
			return err
		}
		mine := []float64{1, 2, float64(c.Rank())}
		return errors.Join(w.Fence(0), w.Put(comm.Of(mine), c.Rank(), 0), w.Fence(0), w.Free())
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = comm.Run(ctx, comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		w, err := s.Attach(c, "example", nam.ReadOnly(true))
		if err != nil {
			return err
		}
		fmt.Println(w.RemoteSize(), "ranks,", w.Epochs(), "fences")
		for r := range w.RemoteSize() {
			size, unit := w.Region(r)
			data := make([]float64, size/unit)
			if err := errors.Join(w.Fence(0), w.Get(comm.Of(data), r, 0), w.Fence(0)); err != nil {
				return err
			}
			fmt.Println(r, data)
		}
		return w.Free()
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2 ranks, 2 fences
	// 0 [1 2 0]
	// 1 [1 2 1]
}
