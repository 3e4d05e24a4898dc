// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"
	"os"

	"weft/comm"
	"weft/nam"
)

// guide/nam.md: a program whose ranks may be processes.
func Example_storeOfEachProcess() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "weft-docs-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	err = comm.Main(ctx, comm.Config{}, func(c *comm.Comm) error {
		// once per process: in the function of the rank, or before it
		store, err := nam.Open(dir, nam.Config{})
		if err != nil {
			return err
		}
		defer store.Close()
		win, err := store.Allocate(c, 1<<20, 8, nam.Persistent, nam.Name("result"))
		if err != nil {
			return err // the same on all ranks
		}
		return win.Free()
	})
	fmt.Println(err)
	// Output: <nil>
}
